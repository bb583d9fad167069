"""The decoders of TransNAS-Bench-101, which map the features of an encoder to maps as large as the image."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn

from ...datasets.tasks import Task

#: Channels after every block of the generator, and its blocks that can upsample, the last one first.
GENERATOR = (1024, 1024, 512, 512, 256, 128, 64, 64, 32, 32, 16, 32, 16)
UPSAMPLING = (12, 10, 8, 6, 4, 2)
#: Channels after every block of the segmentation decoder, whose last blocks upsample.
SEGMENTATION = (1024, 512, 256, 128, 64, 32, 32)

_GENERATED = {"autoencoder", "normal"}


class Block(nn.Sequential):
    """A 3 x 3 convolution with bias, a batch norm and a leaky ReLU. To upsample, the convolution is transposed."""

    def __init__(self, inputs: int, outputs: int, *, upsamples: bool) -> None:
        super().__init__(
            nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
            if upsamples
            else nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.2),
        )


class Decoder(nn.Module):
    """Blocks, then a 3 x 3 convolution to the maps, in PyTorch's default initialisation.

    Args:
        inputs: Channels of the features.
        widths: Channels after every block.
        upsampling: Places of the blocks that double the resolution.
        outputs: Number of maps.
    """

    def __init__(self, inputs: int, widths: tuple[int, ...], upsampling: Collection[int], outputs: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(
                Block(before, after, upsamples=block in upsampling)
                for block, (before, after) in enumerate(zip((inputs, *widths), widths, strict=False))
            )
        )
        self.to_maps = nn.Conv2d(widths[-1], outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, 2^u H, 2^u W)`, u being the number of blocks that upsample."""
        maps: Tensor = self.to_maps(self.blocks(x))
        return maps


def decoder(task: Task, inputs: int, upsamplings: int) -> nn.Module:
    """Return the decoder of a task. It is a generator that ends in tanh for `autoencoder` and `normal`.

    The other tasks have the segmentation decoder. The discriminator that the generator is trained against is no part
    of the network, because no map passes through it.
    """
    if task.name in _GENERATED:
        return nn.Sequential(Decoder(inputs, GENERATOR, UPSAMPLING[:upsamplings], task.num_classes), nn.Tanh())
    blocks = range(len(SEGMENTATION))
    return Decoder(inputs, SEGMENTATION, blocks[-upsamplings:], task.num_classes)
