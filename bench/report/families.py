"""The families of proxies: what those of one page have in common, and which they are."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """Proxies that look at the same thing.

    Attributes:
        title: Heading of the page.
        idea: What they look at, as the index says it.
        about: What a reader should know before the formulas.
        stems: Names of the proxies, without what stands after a dot.
    """

    title: str
    idea: str
    about: str
    stems: tuple[str, ...]


#: The families by the name of their page, in the order of the index.
FAMILIES = {
    "sizes": Family(
        "Sizes and other simple rivals",
        "how large the network is",
        "These need no idea about learning: they count parameters, operations or layers, or take the accuracy "
        "before training. Larger networks are often more accurate, so a count can rank a space well. A proxy of "
        "another family is worth its cost where it ranks better than `params` and `macs`.",
        ("params", "macs", "conv_count", "relu_count", "vkdnw_dim", "tpc", "nsc", "l2_norm", "accuracy_at_init"),
    ),
    "saliency": Family(
        "Saliency of weights",
        "what the loss, or the output, would lose without each weight",
        "These come from pruning. One backward pass gives the gradient of the loss, or of the output, by every "
        "weight or channel. The gradient times the weight estimates what would change if the weight were removed, "
        "and the score adds this up over the network. A network with more weights has more to add up, so look at "
        "what is left when `params` is taken out ([partial coefficients](../read_the_board.md)).",
        ("snip", "grasp", "plain", "fisher", "synflow", "logsynflow"),
    ),
    "gradients": Family(
        "Gradients of the loss",
        "how large the gradients of the weights are, and how they vary between images",
        "Training follows the gradient of the loss. These ask how large it is, or how well the gradients of "
        "different images agree. They need labels, since the loss does.",
        ("grad_norm", "gradsign", "fisher_trace", "zico", "zico_bc"),
    ),
    "kernels": Family(
        "Kernels of gradients",
        "how training moves the outputs of different images together",
        "The *neural tangent kernel* has an entry for every pair of images: the inner product of the gradients of "
        "their outputs. Its trace says how fast gradient descent moves the outputs, and its condition number how "
        "evenly. The Fisher information is the same thing seen from the weights. These need the gradient of every "
        "single image, so they are the dearest.",
        ("ntk_condition", "ntk_trace", "hnas", "vkdnw"),
    ),
    "jacobians": Family(
        "Gradients of the input",
        "whether the network reacts to different images in different ways",
        "These take the gradient of the outputs by the *images*, one row for each image, and ask how alike the "
        "rows are. A network for which all rows are alike can hardly tell the images apart. One backward pass "
        "gives all rows.",
        ("jacob_cov", "epe_nas"),
    ),
    "patterns": Family(
        "On and off patterns",
        "which ReLUs each image switches on",
        "A ReLU is on or off for an image. The on and off states of all ReLUs are the *pattern* of the image, and "
        "images with different patterns lie in different linear pieces of the network. These count patterns, or "
        "how different they are. They need ReLUs, and with few images many networks have the largest score that "
        "there is.",
        ("naswot", "naswot_conv", "swap", "l_swag", "wrcor", "linear_regions"),
    ),
    "features": Family(
        "Features",
        "how varied the feature maps are, or how far they move with the input",
        "These look at what layers give for images or for noise: how many directions a feature map uses, or how "
        "far it moves when the input moves a little. Most need no backward pass and no labels.",
        (
            "meco",
            "near",
            "apd",
            "zen",
            "phi",
            "az_expressivity",
            "az_progressivity",
            "az_trainability",
        ),
    ),
    "evolved": Family(
        "Evolved programs",
        "a formula that genetic programming has found",
        "A search has put these formulas together from [primitives](../primitives.md), and kept them because they "
        "rank the networks of one space. *Tuned on* names that space. [What evolution "
        "found](../evolution/README.md) has more of them, and [Reproduce the EZNAS paper](../eznas.md) says how "
        "the printed and the released definitions differ.",
        ("eznas_a", "eznas_b"),
    ),
    "aggregates": Family(
        "Aggregates",
        "the scores of several proxies together",
        "An *aggregate* combines the scores of other proxies. Most combine ranks within a *pool*, the networks "
        "that are ranked together. Their score of a network then changes with the others, so `zcbench score` "
        "refuses them and `zcbench.rank` takes them. [Aggregates of proxies](../aggregates/README.md) says how "
        "well they do.",
        ("az_nas", "te_nas", "vkdnw_agg", "vote", "jacob_cov_params", "jacob_cov_zen"),
    ),
}


def family(proxy: str) -> str:
    """Return the name of the page on which a proxy or an aggregate of the package stands.

    Raises:
        KeyError: No family has it.
    """
    stem = proxy.partition(".")[0]
    return {stem: name for name, each in FAMILIES.items() for stem in each.stems}[stem]
