from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from zcbench.datasets import ProbeBatch
from zcbench.datasets.folder import MEAN, STD, folder_batch, resized
from zcbench.errors import ConfigError, DataFileError


def save(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (10, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def normal(colour: tuple[int, int, int]) -> list[float]:
    return [(value / 255 - mean) / std for value, mean, std in zip(colour, MEAN, STD, strict=True)]


def test_labels_are_the_places_of_sorted_folders(tmp_path: Path) -> None:
    colours = {
        "dogs/1.png": (250, 0, 0),
        "cats/a/2.jpg": (0, 0, 0),
        "dogs/3.bmp": (0, 0, 250),
        "cats/4.webp": (9, 9, 9),
    }
    for name, colour in colours.items():
        save(tmp_path / name, colour)
    (tmp_path / "dogs" / "notes.txt").write_text("no image")
    batch = folder_batch(tmp_path, 6, 4, 0)
    assert batch.x.shape == (4, 3, 6, 6)
    assert batch.x.dtype == torch.float32
    assert batch.y is not None
    assert sorted(batch.y.tolist()) == [0, 0, 1, 1]
    # cats is class 0: its images are black and nearly black.
    for x, y in zip(batch.x, batch.y, strict=True):
        dark = bool((x.mean((1, 2)) < torch.tensor(normal((20, 20, 20)))).all())
        assert dark == (y == 0)


def test_an_image_is_scaled_cut_and_normalised(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), dtype=np.uint8)
    pixels[:, 4:12] = (255, 128, 0)  # the middle square, which is all that is kept
    Image.fromarray(pixels).save(tmp_path / "a.png")
    batch = folder_batch(tmp_path, 8, 1, 0)
    assert batch.y is None
    expected = torch.tensor(normal((255, 128, 0))).reshape(3, 1, 1).expand(3, 8, 8)
    torch.testing.assert_close(batch.x[0], expected.float())


def test_a_smaller_batch_begins_a_larger_one_and_seeds_differ(tmp_path: Path) -> None:
    for place in range(9):
        save(tmp_path / f"{place}.png", (20 * place, 0, 0))
    large = folder_batch(tmp_path, 4, 9, 3)
    assert torch.equal(folder_batch(tmp_path, 4, 5, 3).x, large.x[:5])
    assert folder_batch(tmp_path, 4, 9, 3).hash == large.hash != folder_batch(tmp_path, 4, 9, 4).hash


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"images: expected a folder, got .*/absent, which is none"):
        folder_batch(tmp_path / "absent", 4, 1, 0)
    with pytest.raises(ConfigError, match="expected 1 to 0, the number of images"):
        folder_batch(tmp_path, 4, 1, 0)
    save(tmp_path / "a.png", (0, 0, 0))
    with pytest.raises(ConfigError, match="expected 1 to 1, the number of images"):
        folder_batch(tmp_path, 4, 2, 0)
    with pytest.raises(ConfigError, match="size: expected 1 or more"):
        folder_batch(tmp_path, 0, 1, 0)
    noise = np.random.RandomState(0).randint(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:2000])
    with pytest.raises(DataFileError, match=r"a\.png is no image, or torn"):
        folder_batch(tmp_path, 4, 1, 0)


def test_images_of_a_data_set_are_scaled() -> None:
    batch = ProbeBatch.of(torch.ones(2, 3, 4, 4) * torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1), torch.arange(2))
    large = resized(batch, 9)
    assert large.x.shape == (2, 3, 9, 9)
    torch.testing.assert_close(large.x.mean((0, 2, 3)), torch.tensor([1.0, 2.0, 3.0]))
    assert large.hash != batch.hash
    assert resized(batch, 4) is batch
    with pytest.raises(ConfigError, match="size: expected 1 or more"):
        resized(batch, 0)
