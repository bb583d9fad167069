from __future__ import annotations

import pytest
import torch
from torch import Tensor
from zcbench.errors import NotApplicableError
from zcbench.proxies.passes.inputs import CROP_SIZE, CROPS, images_of, make

SEEDS = {"noise": 1, "noise2": 2, "crops": 3}


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(SEEDS[name])


def made(name: str, x: Tensor, **given: Tensor) -> Tensor:
    return make(name, x, given, generator)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(10, 3, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_images_are_handed_on(x: Tensor) -> None:
    assert made("data", x) is x


def test_ones_are_one_image(x: Tensor) -> None:
    assert torch.equal(made("ones", x), torch.ones(1, 3, 6, 5, dtype=torch.float64))


def test_noise_is_normal_in_the_shape_and_kind_of_the_images() -> None:
    x = torch.zeros(100, 3, 8, 8, dtype=torch.float64)
    noise, noise2 = made("noise", x), made("noise2", x)
    assert noise.shape == x.shape
    assert noise.dtype == x.dtype
    assert torch.equal(noise, made("noise", x + 1))
    # Five standard errors of 19,200 draws.
    for value, expected in ((noise.mean(), 0), (noise.std(), 1), ((noise * noise2).mean(), 0)):
        assert value.item() == pytest.approx(expected, abs=5 / 19_200**0.5)


def test_sums(x: Tensor) -> None:
    noise, noise2 = made("noise", x), made("noise2", x)
    assert torch.equal(made("noise+0.01*noise2", x), noise + 0.01 * noise2)
    assert torch.equal(made("data+1e-07*noise", x), x + 1e-7 * noise)


def test_tensors_that_are_given_replace_draws_in_sums_too(x: Tensor) -> None:
    given = torch.full_like(x, 2)
    assert made("noise", x, noise=given) is given
    assert torch.equal(made("data+0.5*noise2", x, noise2=given), x + 1)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 10])
def test_parts_are_equal_and_in_order(parts: int, x: Tensor) -> None:
    size = 10 // parts
    found = [made(f"data[{part}/{parts}]", x) for part in range(parts)]
    assert [len(images) for images in found] == [size] * parts
    assert torch.equal(torch.cat(found), x[: parts * size])  # the rest is left out
    labels = torch.arange(10)
    assert torch.cat([labels[images_of(f"data[{i}/{parts}]", 10)] for i in range(parts)]).tolist() == [
        *range(parts * size)
    ]


@pytest.mark.parametrize("name", ["data", "noise", "ones", "crops", "data+0.1*noise2"])
def test_other_inputs_hold_all_images(name: str) -> None:
    assert images_of(name, 7) == slice(None)


def test_more_parts_than_images_are_refused(x: Tensor) -> None:
    with pytest.raises(NotApplicableError, match="4 batches need as many images, there are 3"):
        made("data[0/4]", x[:3])
    with pytest.raises(NotApplicableError, match="4 batches"):
        images_of("data[3/4]", 3)


@pytest.mark.parametrize("name", ["colour", "noise3", "data[1]", "data[a/b]", "data[4/4]", ""])
def test_no_other_name_is_an_input(name: str, x: Tensor) -> None:
    with pytest.raises(ValueError, match="no input is called"):
        made(name, x)


def test_crops_are_windows_of_the_images(x: Tensor) -> None:
    crops = made("crops", x)
    assert crops.shape == (CROPS, 3, CROP_SIZE, CROP_SIZE)
    windows = {
        x[n, :, top : top + 4, left : left + 4].numpy().tobytes()
        for n in range(10)
        for top in range(3)
        for left in range(2)
    }
    # Sixty windows; one is missed by 1,000 draws with a chance of 60 (59 / 60)^1000 = 3e-6.
    assert {crop.contiguous().numpy().tobytes() for crop in crops} == windows


def test_crops_repeat(x: Tensor) -> None:
    assert torch.equal(made("crops", x), made("crops", x))


def test_images_as_small_as_crops_are_drawn_whole(x: Tensor) -> None:
    small = x[:2, :, :4, :4]
    assert {crop.contiguous().numpy().tobytes() for crop in made("crops", small)} == {
        image.contiguous().numpy().tobytes() for image in small
    }


@pytest.mark.parametrize("shape", [(2, 3, 3, 8), (2, 3, 8, 3), (2, 3, 8), (2, 8), (2, 3, 8, 8, 8)])
def test_images_without_crops_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(NotApplicableError, match="4 pixels or more"):
        made("crops", torch.zeros(shape))
