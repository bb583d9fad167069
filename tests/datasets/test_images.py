from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from zcbench.datasets import DATASETS, Images, StoredImages
from zcbench.datasets.cifar import Batches, Cifar10, Cifar100
from zcbench.datasets.files.registry import locate, sources
from zcbench.datasets.generated import Noise, Ones
from zcbench.datasets.imagenet16 import ImageNet16
from zcbench.datasets.samples import Cifar10Samples, Cifar100Samples, Samples
from zcbench.datasets.tasks import TASKS, Task
from zcbench.errors import ConfigError, DataFileError

COUNT = 40
PIXELS = (np.arange(COUNT * 3072) * 7919 % 256).astype(np.uint8).reshape(COUNT, 3072)
LABELS = [index * 7 % 10 for index in range(COUNT)]
SHARED = Path(__file__).parents[2].parent / "shared"


def cifar10(folder: Path, pixels: Any = PIXELS, labels: Any = LABELS, batch: Any = None) -> Cifar10:
    path = folder / "cifar-10-batches-py" / "data_batch_1"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"batch_label": "training batch 1 of 5", "labels": labels, "data": pixels} if batch is None else batch
    path.write_bytes(pickle.dumps(content, protocol=4))
    return Cifar10(folder)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Cifar10:
    return cifar10(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def real() -> Cifar10:
    folder = Path(os.environ.get("ZCBENCH_DATA") or SHARED / "data")
    if not (folder / "cifar-10-batches-py" / "data_batch_1").is_file():
        pytest.skip(f"the official data_batch_1 is not in {folder}")
    return Cifar10(folder)


def test_names_are_registered() -> None:
    assert DATASETS["cifar10"] is Cifar10
    assert DATASETS["cifar10-samples"] is Cifar10Samples
    assert DATASETS["cifar100"] is Cifar100
    assert DATASETS["cifar100-samples"] is Cifar100Samples
    assert DATASETS["imagenet16-120"] is ImageNet16
    generated = {f"{kind}-{task}" for kind in ("noise", "ones") for task in TASKS}
    stored = {"cifar10", "cifar10-samples", "cifar100", "cifar100-samples", "imagenet16-120"}
    assert set(DATASETS) == stored | generated


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_bear_the_name_they_are_registered_under(tmp_path: Path, name: str) -> None:
    images = DATASETS[name](tmp_path)
    assert images.name == name
    assert images.folder == tmp_path
    assert TASKS[images.task.name] is images.task


def test_same_folder_size_and_seed_give_the_same_batch(images: Cifar10) -> None:
    one, two = images.probe_batch(16, seed=3), Cifar10(images.folder).probe_batch(16, seed=3)
    assert one.hash == two.hash
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y, two.y)


def test_batches_have_the_promised_form(images: Cifar10) -> None:
    batch = images.probe_batch(5, seed=0)
    assert (batch.x.shape, batch.x.dtype) == ((5, 3, 32, 32), torch.float32)
    assert (batch.y.shape, batch.y.dtype) == ((5,), torch.int64)
    assert batch.x.is_contiguous()
    assert batch.hash == hashlib.sha256(batch.x.numpy().tobytes() + batch.y.numpy().tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("size", "seed", "expected"), [(16, 0, "684756d74497aef3"), (40, 7, "1f83ebe0c13f8bc9")])
def test_hashes_stay_for_good(images: Cifar10, size: int, seed: int, expected: str) -> None:
    # The hash is part of every stored row's key: another value orphans everyone's results.
    assert images.probe_batch(size, seed).hash == expected


@pytest.mark.parametrize("size", [1, 2, 7, 39, 40])
def test_smaller_batches_begin_larger_ones(images: Cifar10, size: int) -> None:
    small, large = images.probe_batch(size, seed=1), images.probe_batch(COUNT, seed=1)
    assert torch.equal(small.x, large.x[:size])
    assert torch.equal(small.y, large.y[:size])


def test_a_full_batch_holds_every_image_once(images: Cifar10) -> None:
    batch = images.probe_batch(COUNT, seed=5)
    every = images.normalise(PIXELS.reshape(-1, 3, 32, 32))
    assert sorted(x.numpy().tobytes() for x in batch.x) == sorted(x.numpy().tobytes() for x in every)


def test_seeds_give_different_batches(images: Cifar10) -> None:
    assert len({images.probe_batch(COUNT, seed).hash for seed in range(20)}) == 20


def test_global_random_states_are_left_alone(images: Cifar10) -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    images.probe_batch(16, seed=0)
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_hash_depends_on_pixels(images: Cifar10, tmp_path: Path) -> None:
    pixels = PIXELS.copy()
    pixels[-1, -1] ^= 1
    assert cifar10(tmp_path, pixels=pixels).probe_batch(COUNT, 0).hash != images.probe_batch(COUNT, 0).hash


def test_hash_depends_on_labels(images: Cifar10, tmp_path: Path) -> None:
    labels = [*LABELS[:-1], (LABELS[-1] + 1) % 10]
    assert cifar10(tmp_path, labels=labels).probe_batch(COUNT, 0).hash != images.probe_batch(COUNT, 0).hash


@pytest.mark.parametrize("channel", range(3))
def test_normalisation_of_every_pixel_value(images: Cifar10, channel: int) -> None:
    mean, std = (0.4914, 0.4822, 0.4465)[channel], (0.2470, 0.2435, 0.2616)[channel]
    pixels = np.zeros((1, 3, 16, 16), dtype=np.uint8)
    pixels[0, channel] = np.arange(256).reshape(16, 16)
    expected = np.array([(value / 255 - mean) / std for value in range(256)]).astype(np.float32)
    np.testing.assert_array_equal(images.normalise(pixels)[0, channel].numpy().ravel(), expected)


def test_pixels_are_read_channel_by_channel(tmp_path: Path) -> None:
    pixels = np.repeat(np.array([[10, 20, 30]], dtype=np.uint8), 1024, axis=1)
    pixels[0, 1024 + 32 * 5 + 3] = 99
    found, _ = cifar10(tmp_path, pixels=pixels, labels=[1]).read()
    assert found[0, :, 0, 0].tolist() == [10, 20, 30]
    assert found[0, 1, 5, 3] == 99


class Dots(StoredImages):
    """Images of one pixel, so that more than 10,000 of them are cheap; the late ones are white."""

    name = "dots"
    task = Task("dots", 1, 1)
    mean = (0.0, 0.0, 0.0)
    std = (1.0, 1.0, 1.0)

    def read(self) -> tuple[Any, Any]:
        pixels = np.zeros((10_010, 3, 1, 1), dtype=np.uint8)
        pixels[10_000:] = 255
        return pixels, np.zeros(10_010, dtype=np.int64)


def test_only_the_first_ten_thousand_images_are_drawn(tmp_path: Path) -> None:
    for seed in range(3):
        assert not Dots(tmp_path).probe_batch(10_000, seed).x.any()


def test_more_than_ten_thousand_images_are_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected 1 to 10000, .*dots.*, got 10001"):
        Dots(tmp_path).probe_batch(10_001, seed=0)


@pytest.mark.parametrize("size", [0, -1, COUNT + 1, 10**9])
def test_impossible_batch_sizes(images: Cifar10, size: int) -> None:
    with pytest.raises(ConfigError, match=rf"^batch_sizes: expected 1 to {COUNT}, .*cifar10.*, got {size}$"):
        images.probe_batch(size, seed=0)


FAULTY_BATCHES = {
    "other type": {"data": PIXELS.astype(np.int32), "labels": LABELS},
    "signed bytes": {"data": PIXELS.astype(np.int8), "labels": LABELS},
    "other width": {"data": PIXELS[:, :-1], "labels": LABELS},
    "images as blocks": {"data": PIXELS.reshape(-1, 3, 32, 32), "labels": LABELS},
    "flat": {"data": PIXELS.ravel(), "labels": LABELS},
    "pixels in lists": {"data": PIXELS[:2].tolist(), "labels": LABELS[:2]},
    "pixels are bytes": {"data": PIXELS.tobytes(), "labels": LABELS},
    "no pixels": {"data": None, "labels": LABELS},
    "too few labels": {"data": PIXELS, "labels": LABELS[:-1]},
    "too many labels": {"data": PIXELS, "labels": [*LABELS, 0]},
    "fractions": {"data": PIXELS, "labels": [float(label) for label in LABELS]},
    "truth values": {"data": PIXELS, "labels": [True] * COUNT},
    "texts": {"data": PIXELS, "labels": [str(label) for label in LABELS]},
    "one text": {"data": PIXELS, "labels": "7" * COUNT},
    "one number": {"data": PIXELS, "labels": 7},
    "labels are nothing": {"data": PIXELS, "labels": None},
    "labels as keys": {"data": PIXELS[:10], "labels": dict.fromkeys(range(10))},
    "endless numbers": {"data": PIXELS, "labels": [2**70] * COUNT},
    "number as name": {"data": PIXELS, 7: LABELS},
    "no labels": {"data": PIXELS, "filenames": ["a.png"]},
    "labels of CIFAR-100": {"data": PIXELS, "fine_labels": LABELS},
    "no data": {"labels": LABELS},
    "keys of many lines": {"a\nb": 1},
    "keys as bytes": {b"data": PIXELS, b"labels": LABELS},
    "empty": {},
    "a list": [PIXELS, LABELS],
    "an array": PIXELS,
    "a number": 7,
}


@pytest.mark.parametrize("name", FAULTY_BATCHES)
def test_faulty_batches_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataFileError) as caught:
        cifar10(tmp_path, batch=FAULTY_BATCHES[name]).setup()
    message = str(caught.value)
    assert "data_batch_1" in message
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(tmp_path)) + 250


@pytest.mark.parametrize("label", [-1, 10, 255])
def test_labels_outside_the_classes(tmp_path: Path, label: int) -> None:
    with pytest.raises(DataFileError, match=rf"cifar10: expected labels 0 to 9, got .*{label}"):
        cifar10(tmp_path, labels=[*LABELS[:-1], label]).setup()


def test_subclasses_of_dict_are_not_made(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"collections\.OrderedDict"):
        cifar10(tmp_path, batch=OrderedDict(data=PIXELS, labels=LABELS)).setup()


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    class Wrong(Dots):
        task = Task("dots", 1, 2)

    with pytest.raises(
        DataFileError, match=r"dots: expected uint8 images \(10010, 3, 2, 2\), got .*\(10010, 3, 1, 1\)"
    ):
        Wrong(tmp_path).setup()


def test_images_are_read_once(tmp_path: Path) -> None:
    images = cifar10(tmp_path)
    first = images.probe_batch(16, seed=0)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").unlink()
    assert images.probe_batch(16, seed=0).hash == first.hash


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"data_batch_1 is absent.*cifar-10-python\.tar\.gz"):
        Cifar10(tmp_path).probe_batch(1, seed=0)


@pytest.mark.parametrize("module", [Cifar10Samples, Cifar100Samples])
def test_samples_equal_what_pillow_decodes(tmp_path: Path, module: type[Samples]) -> None:
    image_module = pytest.importorskip("PIL.Image")
    pixels, labels = module(tmp_path).read()
    paths = locate(sources()[module.name], tmp_path)
    assert len(pixels) == len(labels) == len(paths) == 20
    for number, (path, image, label) in enumerate(zip(paths, pixels, labels, strict=True)):
        assert path.name == f"{module.task.name}_{number:02d}_{label}.png"
        with image_module.open(path) as expected:
            assert expected.mode == "RGB"
            np.testing.assert_array_equal(image, np.moveaxis(np.asarray(expected), -1, 0))


@pytest.mark.parametrize("module", [Cifar10Samples, Cifar100Samples])
def test_samples_give_batches_of_up_to_twenty(tmp_path: Path, module: type[Samples]) -> None:
    samples = module(tmp_path)
    batch = samples.probe_batch(20, seed=0)
    assert batch.x.shape == (20, 3, 32, 32)
    assert sorted(batch.y.tolist()) == sorted(samples.read()[1])
    with pytest.raises(ConfigError, match=rf"expected 1 to 20, .*{module.name}"):
        samples.probe_batch(21, seed=0)


def test_samples_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataFileError, match=r"pillow.*pip install"):
        Cifar10Samples(tmp_path).read()


def test_torn_samples_are_named_or_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Cifar10Samples(tmp_path)
    whole = locate(sources()["cifar10-samples"], tmp_path)[0].read_bytes()
    expected = samples.read()[0][0]
    torn = tmp_path / "cifar10_00_3.png"
    monkeypatch.setattr("zcbench.datasets.samples.locate", lambda *_: [torn])
    refusals = []
    for length in range(0, len(whole), 7):
        torn.write_bytes(whole[:length])
        try:
            found = samples.read()[0][0]
        except DataFileError as error:
            refusals.append(str(error))
        else:
            # Without its last bytes, which are a check sum and an end mark, a PNG still has all its pixels.
            np.testing.assert_array_equal(found, expected)
    assert len(refusals) > len(whole) // 7 - 5
    assert all(str(torn) in refusal and len(refusal.splitlines()) == 1 for refusal in refusals)


@pytest.mark.parametrize("content", [b"<html></html>", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 100])
def test_samples_that_are_no_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    path = tmp_path / "cifar10_00_3.png"
    path.write_bytes(content)
    monkeypatch.setattr("zcbench.datasets.samples.locate", lambda *_: [path])
    with pytest.raises(DataFileError, match="reinstall foolbox"):
        Cifar10Samples(tmp_path).read()


def test_official_batch_has_ten_thousand_images(real: Cifar10) -> None:
    pixels, labels = real.read()
    assert (pixels.shape, pixels.dtype) == ((10_000, 3, 32, 32), np.uint8)
    assert labels.shape == (10_000,)
    assert set(labels.tolist()) == set(range(10))
    assert real.probe_batch(10, seed=0).x.shape == (10, 3, 32, 32)


def test_official_images_equal_the_reference(real: Cifar10) -> None:
    path = SHARED / "reference" / "batch_cifar10_16.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not beside the data")
    pixels, labels = real.read()
    with np.load(path, allow_pickle=False) as reference:
        np.testing.assert_array_equal(real.normalise(pixels[:16]).numpy(), reference["x"])
        np.testing.assert_array_equal(labels[:16], reference["y"])


# Files of the other layouts: the key of the labels, the pixels of an image and the labels that a file may hold.
LAYOUTS = {
    Cifar100: ("cifar-100-python/train", "fine_labels", 3072, range(100)),
    ImageNet16: ("ImageNet16/train_data_batch_1", "labels", 768, range(1, 1001)),
}
LAYOUT_NAMES = pytest.mark.parametrize("module", LAYOUTS, ids=lambda module: module.name)


def write(module: type[Batches], folder: Path, **changes: Any) -> Batches:
    """Write a small file in the official layout, changed, and return the module that reads it."""
    name, key, width, known = LAYOUTS[module]
    labels = [known[index * 37 % len(known)] for index in range(COUNT)]
    pixels = (np.arange(COUNT * width) * 7919 % 256).astype(np.uint8).reshape(COUNT, width)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"data": pixels, key: labels, **changes}
    path.write_bytes(pickle.dumps({key: value for key, value in content.items() if value is not ...}, protocol=2))
    return module(folder)


def test_fine_labels_are_taken(tmp_path: Path) -> None:
    pixels, labels = write(Cifar100, tmp_path, coarse_labels=[7] * COUNT).read()
    assert pixels.shape == (COUNT, 3, 32, 32)
    assert labels.tolist() == [index * 37 % 100 for index in range(COUNT)]


def test_other_classes_of_imagenet_are_dropped_and_labels_begin_at_0(tmp_path: Path) -> None:
    pixels = np.repeat(np.arange(5, dtype=np.uint8), 768).reshape(5, 768)
    labels = [120, 121, 1, 1000, 119]
    found, kept = write(ImageNet16, tmp_path, data=pixels, labels=labels, mean=np.zeros(768)).read()
    assert kept.tolist() == [119, 0, 118]
    assert found.shape == (3, 3, 16, 16)
    assert found[:, 0, 0, 0].tolist() == [0, 2, 4]


def test_the_pool_of_imagenet_is_its_first_ten_thousand_kept_images(tmp_path: Path) -> None:
    labels = [1 + index % 240 for index in range(20_400)]
    pixels = np.zeros((len(labels), 768), dtype=np.uint8)
    kept = [index for index, label in enumerate(labels) if label <= 120]
    pixels[kept[10_000:]] = 255
    images = write(ImageNet16, tmp_path, data=pixels, labels=labels)
    assert len(kept) == 10_200
    assert images.pool() == 10_000
    assert (images.probe_batch(10_000, seed=1).x < 0).all()


@pytest.mark.parametrize("label", [0, -1, 1001])
def test_labels_that_imagenet_lacks(tmp_path: Path, label: int) -> None:
    images = write(ImageNet16, tmp_path, labels=[label] + [1] * (COUNT - 1))
    with pytest.raises(DataFileError, match=rf"imagenet16-120: expected labels 1 to 1000, got .*{label}"):
        images.setup()


def test_a_file_without_the_first_classes(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="none of 40 images is of the first 120 classes"):
        write(ImageNet16, tmp_path, labels=[121] * COUNT).setup()


def test_labels_that_cifar_100_lacks(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cifar100: expected labels 0 to 99, got 100 to 100"):
        write(Cifar100, tmp_path, fine_labels=[100] * COUNT).setup()


@LAYOUT_NAMES
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": ...}, "expected a dictionary with data and"),
        ({"labels": ..., "fine_labels": ...}, "expected a dictionary with data and"),
        ({"data": np.zeros((COUNT, 192), dtype=np.uint8)}, r"expected data of uint8 \(M, \d+\), got uint8 \(40, 192\)"),
        ({"data": np.zeros((COUNT, 768))}, r"expected data of uint8 \(M, \d+\), got float64 \(40, 768\)"),
        ({"data": np.zeros((COUNT, 768), dtype=np.float32)}, "expected an array of uint8 or float64"),
        ({"labels": [1], "fine_labels": [1]}, "expected a list of 40"),
        ({"labels": np.ones(COUNT), "fine_labels": np.ones(COUNT)}, "expected a list of 40"),
        ({"labels": [1.0] * COUNT, "fine_labels": [1.0] * COUNT}, "expected whole numbers"),
    ],
)
def test_faults_of_the_other_layouts(tmp_path: Path, module: type[Batches], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataFileError, match=said) as caught:
        write(module, tmp_path, **changes).setup()
    assert LAYOUTS[module][0] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@LAYOUT_NAMES
def test_torn_files_of_the_other_layouts(tmp_path: Path, module: type[Batches]) -> None:
    images = write(module, tmp_path)
    path = tmp_path / LAYOUTS[module][0]
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFileError, match="torn or not a pickle"):
            images.setup()


@LAYOUT_NAMES
def test_absent_files_of_the_other_layouts(tmp_path: Path, module: type[Batches]) -> None:
    with pytest.raises(DataFileError, match=rf"{LAYOUTS[module][0]} is absent: .*https://.*ZCBENCH_DATA"):
        module(tmp_path).probe_batch(4, seed=0)


@pytest.mark.parametrize(
    ("module", "mean", "std"),
    [
        (Cifar100, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
        (Cifar100Samples, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
        (ImageNet16, (122.68 / 255, 116.66 / 255, 104.01 / 255), (63.22 / 255, 61.26 / 255, 65.09 / 255)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_data_set_has_its_own_normalisation(
    tmp_path: Path, module: type[StoredImages], mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    pixels = np.full((1, 3, 2, 2), 51, dtype=np.uint8)
    expected = [np.float32((0.2 - m) / s) for m, s in zip(mean, std, strict=True)]
    np.testing.assert_array_equal(module(tmp_path).normalise(pixels)[0, :, 1, 1].numpy(), expected)


@pytest.mark.parametrize(
    ("module", "expected"),
    [(Cifar100, "913c6c0e98422d4c"), (ImageNet16, "907bc1e0b6fabc50")],
    ids=lambda value: getattr(value, "name", ""),
)
def test_hashes_of_the_other_layouts_stay_for_good(tmp_path: Path, module: type[Batches], expected: str) -> None:
    assert write(module, tmp_path).probe_batch(4, seed=0).hash == expected


@LAYOUT_NAMES
def test_real_files_have_the_promised_images(real_data: Path, module: type[Batches]) -> None:
    if not (real_data / LAYOUTS[module][0]).is_file():
        pytest.skip(f"{LAYOUTS[module][0]} is not in {real_data}")
    images = module(real_data)
    pixels, labels = images.read()
    assert set(labels.tolist()) <= set(range(module.task.num_classes))
    assert images.pool() == min(len(pixels), 10_000)
    batch = images.probe_batch(64, seed=0)
    assert batch.x.shape == (64, *module.task.shape)
    # The channels of so many natural images have about the mean and deviation they are normalised by.
    assert images.normalise(pixels).mean((0, 2, 3)).abs().max() < 0.2
    assert (images.normalise(pixels).std((0, 2, 3)) - 1).abs().max() < 0.2


# (channels, side), outputs and whether they are logits of one label: the tasks as their papers and released code have
# them. TransNAS-Bench-101: 3 x 256 x 256, but jigsaw's nine tiles of 3 x 64 x 64; three tasks map images to images, one
# regresses nine numbers, and the classifiers have 63, 100 and 1,000 outputs.
FORMS = {
    "cifar10": ((3, 32), 10, True),
    "cifar100": ((3, 32), 100, True),
    "imagenet16-120": ((3, 16), 120, True),
    "imagenet": ((3, 224), 1000, True),
    "class_scene": ((3, 256), 63, True),
    "class_object": ((3, 256), 100, True),
    "jigsaw": ((27, 64), 1000, True),
    "room_layout": ((3, 256), 9, False),
    "autoencoder": ((3, 256), 3, False),
    "normal": ((3, 256), 3, False),
    "segmentsemantic": ((3, 256), 17, False),
}


def generated(kind: str, task: str = "cifar10") -> Images:
    return DATASETS[f"{kind}-{task}"](None)


def test_every_task_has_its_form() -> None:
    forms = {
        task.name: ((task.channels, task.image_size), task.num_classes, task.outputs == "logits")
        for task in TASKS.values()
    }
    assert forms == FORMS


@pytest.mark.parametrize("kind", ["noise", "ones"])
@pytest.mark.parametrize("name", FORMS)
def test_every_task_has_generated_images_of_its_form(name: str, kind: str) -> None:
    (channels, side), outputs, labelled = FORMS[name]
    images = generated(kind, name)
    assert (images.name, images.task) == (f"{kind}-{name}", TASKS[name])
    batch = images.probe_batch(3, seed=3)
    assert (batch.x.shape, batch.x.dtype) == ((3, channels, side, side), torch.float32)
    assert batch.x.is_contiguous()
    assert batch.hash == hashlib.sha256(
        batch.x.numpy().tobytes() + (b"" if batch.y is None else batch.y.numpy().tobytes())
    ).hexdigest()[:16]  # fmt: skip
    if not labelled:
        assert batch.y is None
        return
    assert batch.y is not None
    assert (batch.y.tolist(), batch.y.dtype) == ([0, 1, 2], torch.int64)
    assert outputs > 2


@pytest.mark.parametrize("kind", ["noise", "ones"])
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_smaller_generated_batches_begin_larger_ones(name: str, kind: str, size: int) -> None:
    small, large = (generated(kind, name).probe_batch(count, seed=1) for count in (size, 5))
    assert torch.equal(small.x, large.x[:size])
    assert (small.y is None) == (large.y is None)
    if small.y is not None and large.y is not None:
        assert torch.equal(small.y, large.y[:size])
    assert generated(kind, name).probe_batch(size, seed=1).hash == small.hash


@pytest.mark.parametrize("kind", ["noise", "ones"])
@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("imagenet16-120", 120), ("cifar100", 100)])
def test_generated_labels_come_in_turn(name: str, classes: int, kind: str) -> None:
    batch = generated(kind, name).probe_batch(250, seed=0)
    assert batch.y is not None
    assert batch.y.tolist() == [index % classes for index in range(250)]


def test_noise_is_gaussian_and_another_for_every_seed() -> None:
    one, two = generated("noise").probe_batch(64, seed=0), generated("noise").probe_batch(64, seed=1)
    assert one.hash != two.hash
    assert abs(float(one.x.mean())) < 0.01
    assert float(one.x.std()) == pytest.approx(1, abs=0.01)
    assert float((one.x.abs() < 1).float().mean()) == pytest.approx(0.6827, abs=0.01)
    assert abs(float((one.x * two.x).mean())) < 0.01


def test_the_tiles_of_a_jigsaw_are_independent_noise() -> None:
    x = generated("noise", "jigsaw").probe_batch(8, seed=0).x.double().transpose(0, 1).reshape(27, -1)
    # 8 * 64 * 64 values a channel: a correlation of two has the deviation 1 / sqrt(32768) = 0.0055.
    assert float((torch.corrcoef(x) - torch.eye(27)).abs().max()) < 0.03


def test_noise_leaves_global_random_states_alone() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    generated("noise").probe_batch(16, seed=0)
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_ones_are_ones() -> None:
    assert (generated("ones").probe_batch(16, seed=0).x == 1).all()
    assert generated("ones").probe_batch(16, seed=0).hash == generated("ones").probe_batch(16, seed=5).hash


def test_generated_hashes_stay_for_good() -> None:
    assert generated("noise").probe_batch(4, seed=0).hash == Noise().probe_batch(4, seed=0).hash == "2355df4b5809f8c2"
    assert generated("ones").probe_batch(4, seed=0).hash == Ones().probe_batch(4, seed=0).hash == "215790cbbdc84cd5"


@pytest.mark.parametrize("kind", ["noise", "ones"])
@pytest.mark.parametrize("name", ["cifar10", "normal"])
def test_generated_batches_end_at_ten_thousand(name: str, kind: str) -> None:
    for size in (0, 10_001):
        with pytest.raises(ConfigError, match=rf"expected 1 to 10000, .*{kind}-{name}.*, got {size}$"):
            generated(kind, name).probe_batch(size, seed=0)
