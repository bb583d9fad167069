from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from zcbench.errors import NotApplicableError
from zcbench.proxies.passes.inputs import CROPS, DATA, NOISE, NOISE2, ONES, Input, Slice

SEEDS = {"noise": 1, "noise2": 2, "crops": 3}


@dataclasses.dataclass
class Batch:
    x: Tensor
    drawn: Mapping[str, Tensor]

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(SEEDS[name])


def made(of: Input, x: Tensor, **drawn: Tensor) -> Tensor:
    return of.make(Batch(x, drawn))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(10, 3, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_images_are_handed_on(x: Tensor) -> None:
    assert made(DATA, x) is x


def test_ones_are_one_image(x: Tensor) -> None:
    assert torch.equal(made(ONES, x), torch.ones(1, 3, 6, 5, dtype=torch.float64))


def test_noise_is_normal_in_the_shape_and_kind_of_the_images() -> None:
    x = torch.zeros(100, 3, 8, 8, dtype=torch.float64)
    noise, noise2 = made(NOISE, x), made(NOISE2, x)
    assert noise.shape == x.shape
    assert noise.dtype == x.dtype
    assert torch.equal(noise, made(NOISE, x + 1))
    # Five standard errors of 19,200 draws.
    for value, expected in ((noise.mean(), 0), (noise.std(), 1), ((noise * noise2).mean(), 0)):
        assert value.item() == pytest.approx(expected, abs=5 / 19_200**0.5)


def test_sums(x: Tensor) -> None:
    noise, noise2 = made(NOISE, x), made(NOISE2, x)
    assert torch.equal(made(NOISE + 0.01 * NOISE2, x), noise + 0.01 * noise2)
    assert torch.equal(made(DATA + 1e-7 * NOISE, x), x + 1e-7 * noise)


def test_tensors_that_are_given_replace_draws_in_sums_too(x: Tensor) -> None:
    given = torch.full_like(x, 2)
    assert made(NOISE, x, noise=given) is given
    assert torch.equal(made(DATA + 0.5 * NOISE2, x, noise2=given), x + 1)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 10])
def test_parts_are_equal_and_in_order(parts: int, x: Tensor) -> None:
    size = 10 // parts
    found = [made(Slice(part, parts), x) for part in range(parts)]
    assert [len(images) for images in found] == [size] * parts
    assert torch.equal(torch.cat(found), x[: parts * size])  # the rest is left out
    labels = torch.arange(10)
    assert torch.cat([Slice(i, parts).labels(labels) for i in range(parts)]).tolist() == [*range(parts * size)]


@pytest.mark.parametrize("of", [DATA, NOISE, ONES, CROPS, DATA + 0.1 * NOISE2])
def test_other_inputs_have_all_labels(of: Input) -> None:
    assert of.labels(torch.arange(7)).tolist() == [*range(7)]


def test_a_sum_has_the_labels_of_its_first_input() -> None:
    assert (Slice(1, 2) + 0.1 * NOISE2).labels(torch.arange(4)).tolist() == [2, 3]


def test_numbers_of_any_size_are_values(x: Tensor) -> None:
    # As a text, `noise+1e+16*noise2` could not be read.
    assert torch.equal(made(NOISE + 1e16 * NOISE2, x), made(NOISE, x) + 1e16 * made(NOISE2, x))
    assert torch.equal(made(DATA + -3.5e-300 * NOISE, x), x + -3.5e-300 * made(NOISE, x))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_draws_have_the_memory_layout_of_the_images(layout: torch.memory_format) -> None:
    x = torch.zeros(2, 3, 8, 8).contiguous(memory_format=layout)
    for of in (NOISE, DATA + 0.1 * NOISE2, CROPS):
        assert made(of, x).is_contiguous(memory_format=layout), of
    assert torch.equal(made(NOISE, x), made(NOISE, torch.zeros(2, 3, 8, 8)))


def test_more_parts_than_images_are_refused(x: Tensor) -> None:
    with pytest.raises(NotApplicableError, match="4 batches need as many images, there are 3"):
        made(Slice(0, 4), x[:3])
    with pytest.raises(NotApplicableError, match="4 batches"):
        Slice(3, 4).labels(torch.arange(3))


@pytest.mark.parametrize(("place", "count"), [(4, 4), (-1, 4), (0, 0), (7, 2)])
def test_a_slice_outside_of_the_images_is_refused(place: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"expected a place from 0 to {count - 1}, got {place}"):
        Slice(place, count)


def test_crops_are_windows_of_the_images(x: Tensor) -> None:
    crops = made(CROPS, x)
    assert crops.shape == (CROPS.count, 3, CROPS.size, CROPS.size)
    windows = {
        x[n, :, top : top + 4, left : left + 4].numpy().tobytes()
        for n in range(10)
        for top in range(3)
        for left in range(2)
    }
    # Sixty windows; one is missed by 1,000 draws with a chance of 60 (59 / 60)^1000 = 3e-6.
    assert {crop.contiguous().numpy().tobytes() for crop in crops} == windows


def test_crops_repeat(x: Tensor) -> None:
    assert torch.equal(made(CROPS, x), made(CROPS, x))


def test_images_as_small_as_crops_are_drawn_whole(x: Tensor) -> None:
    small = x[:2, :, :4, :4]
    assert {crop.contiguous().numpy().tobytes() for crop in made(CROPS, small)} == {
        image.contiguous().numpy().tobytes() for image in small
    }


@pytest.mark.parametrize("shape", [(2, 3, 3, 8), (2, 3, 8, 3), (2, 3, 8), (2, 8), (2, 3, 8, 8, 8)])
def test_images_without_crops_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(NotApplicableError, match="4 pixels or more"):
        made(CROPS, torch.zeros(shape))
