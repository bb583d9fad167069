"""The decoders of TransNAS-Bench-101: from the features of an encoder to maps as large as the image."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn

from ...datasets.tasks import Task

#: Channels after every block of the generator, and the blocks that upsample, the last ones first.
GENERATOR = (1024, 1024, 512, 512, 256, 128, 64, 64, 32, 32, 16, 32, 16)
UPSAMPLING = (12, 10, 8, 6, 4, 2)
#: Channels after every block of the segmentation decoder; its last blocks upsample.
SEGMENTATION = (1024, 512, 256, 128, 64, 32, 32)

_GENERATED = {"autoencoder", "normal"}


class Block(nn.Sequential):
    """3 x 3 convolution, transposed with a stride of two where it upsamples, with bias; batch norm; leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, *, upsamples: bool) -> None:
        super().__init__(
            nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
            if upsamples
            else nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.2),
        )


class Decoder(nn.Module):
    """Blocks and a 3 x 3 convolution to the maps, in PyTorch's own initialisation.

    Args:
        inputs: Channels of the features.
        widths: Channels after every block.
        upsampling: The blocks that double the resolution.
        outputs: How many maps.
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
        """Map `(N, inputs, H, W)` to `(N, outputs, 2^u H, 2^u W)` with u blocks that upsample."""
        maps: Tensor = self.to_maps(self.blocks(x))
        return maps


def decoder(task: Task, inputs: int, upsamplings: int) -> nn.Module:
    """Make the decoder of a task: the generator of autoencoder and normal, whose maps end in tanh, or segmentation's.

    The generator is trained against a discriminator, which is no part of the network: no map passes through it.
    """
    if task.name in _GENERATED:
        return nn.Sequential(Decoder(inputs, GENERATOR, UPSAMPLING[:upsamplings], task.num_classes), nn.Tanh())
    blocks = range(len(SEGMENTATION))
    return Decoder(inputs, SEGMENTATION, blocks[-upsamplings:], task.num_classes)
