"""Faults planted in every proxy, one at a time: the regression check has to fail and to name the proxy.

A mutant is the source of a proxy's file with one change: the sign of a result, an operator, a comparison, a number, the
order of two arguments, train for eval, another objective, other images. Mutants that change no score of any network by
more than round-off cannot be told from the original (a symmetric function with its arguments swapped) and do not count;
every proxy has others.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from zcbench.bench.results.regress import compare, make_baseline
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.proxies import PROXIES, registry
from zcbench.proxies.registry import Proxy, Score, score_all
from zcbench.registry import Registry
from zcbench.spaces.nb201.network import Network, parse

FILES = sorted({proxy.function.__module__ for proxy in PROXIES.values()})
#: Faults per file beside the sign of every result, spread over its source.
PER_FILE = 6
NETWORKS = (
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|",
    "|nor_conv_1x1~0|+|avg_pool_3x3~0|nor_conv_3x3~1|+|none~0|skip_connect~1|nor_conv_3x3~2|",
    "|skip_connect~0|+|nor_conv_1x1~0|none~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_1x1~2|",
)


@functools.cache
def networks() -> list[nn.Module]:
    torch.manual_seed(3)
    return [Network(parse(text), num_classes=10, channels=4, cells=1).double() for text in NETWORKS]


@functools.cache
def images(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 3, 16, 16, generator=generator, dtype=torch.float64), torch.randint(
        10, (8,), generator=generator
    )


def rows(proxies: list[Proxy], seed: int = 0) -> pd.DataFrame:
    scores: list[tuple[str, Score]] = []
    for text, net in zip(NETWORKS, networks(), strict=True):
        scores += [(text, score) for score in score_all(net, *images(seed), proxies, seed=0)]
    frame = pd.DataFrame([{"architecture": text, **asdict(score)} for text, score in scores])
    return frame.assign(batch_size=8, seed=0)


def recipe(proxies: list[Proxy]) -> Recipe:
    return Recipe(
        space="nb201",
        dataset="noise",
        truth="cifar10/made-up",
        label="made up",
        protocol="2",
        device="cpu float64",
        torch="2",
        accuracies=dict(zip(NETWORKS, (94.0, 91.0, 80.0), strict=True)),
        work=(Work(0, 8, tuple(p.name for p in proxies)),),
        batches={(8, 0): "0"},
        versions={p.name: p.version for p in proxies},
        lower=(),
        aggregates=(),
        batch_sizes=(8,),
        resamples=10,
    )


class Sites(ast.NodeTransformer):
    """Counts the places of a tree that can be changed, or changes the one of a number."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen = chosen
        self.count = 0

    def here(self) -> bool:
        self.count += 1
        return self.count - 1 == self.chosen

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # Neither the decorator, which holds the version and the paper, nor annotations and the docstring.
        node.body = [self.visit(statement) if not _is_text(statement) else statement for statement in node.body]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swapped = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}.get(type(node.op))
        if swapped and self.here():
            node.op = swapped()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and self.here() else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swapped = {ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.Lt, ast.LtE: ast.Gt}.get(type(node.ops[0]))
        if swapped and self.here():
            node.ops[0] = swapped()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) in {int, float} and self.here():
            return ast.Constant(node.value * 2 + 1)
        other = {"train": "eval", "eval": "train"}
        if isinstance(node.value, str) and node.value in other and self.here():
            return ast.Constant(other[node.value])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        modes = {keyword.arg for keyword in node.keywords}
        if isinstance(node.func, ast.Name) and node.func.id == "Forward" and "mode" not in modes and self.here():
            node.keywords.append(ast.keyword("mode", ast.Constant("eval")))
        elif isinstance(node.func, ast.Name) and node.func.id[0].isupper():  # a pass or a need, which checks nothing
            return node
        elif len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args) and self.here():
            node.args.reverse()
        return node


def negated(function: Callable[..., float]) -> Callable[..., float]:
    @functools.wraps(function)
    def wrong(**values: Any) -> float:
        return -function(**values)

    return wrong


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def run_source(tree: ast.Module, module: str) -> list[Proxy]:
    """Run a file's source and return the proxies that it registers, which nobody else sees."""
    ast.fix_missing_locations(tree)
    before, registry.PROXIES = registry.PROXIES, Registry("mutant")
    try:
        exec(compile(tree, module, "exec"), {"__name__": f"{module}_mutant", "__package__": "zcbench.proxies"})
        return list(registry.PROXIES.values())
    finally:
        registry.PROXIES = before


def mutants(module: str) -> Iterator[tuple[str, list[Proxy]]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    sites = Sites()
    sites.visit(copy.deepcopy(tree))
    for site in dict.fromkeys(np.linspace(0, sites.count - 1, PER_FILE).astype(int).tolist()):
        mutated = Sites(site).visit(copy.deepcopy(tree))
        try:
            yield f"change {site} of {sites.count}", run_source(mutated, module)
        except Exception:  # it does not even import, which nobody overlooks
            continue


def changed(before: pd.DataFrame, after: pd.DataFrame, name: str, rtol: float = 1e-13) -> bool:
    a, b = (frame.loc[frame["proxy"] == name] for frame in (before, after))
    if list(a["status"]) != list(b["status"]):
        return True
    return not np.allclose(a["value"].to_numpy(), b["value"].to_numpy(), rtol=rtol, atol=0, equal_nan=True)


def named(original: list[Proxy], before: pd.DataFrame, after: pd.DataFrame) -> set[str]:
    config = StudyConfig(accuracy="made-up", proxies=[proxy.name for proxy in original])
    baseline = make_baseline(config, recipe(original), before)
    return {f.proxy for f in compare(baseline, recipe(original), after) if f.outcome == "regressed"}


@pytest.mark.parametrize("module", FILES)
def test_faults_in_a_file_are_caught_and_named(module: str) -> None:
    original = [proxy for proxy in PROXIES.values() if proxy.function.__module__ == module]
    before = rows(original)
    caught: dict[str, int] = dict.fromkeys((proxy.name for proxy in original), 0)

    def judge(after: pd.DataFrame) -> None:
        differ = {name for name in caught if changed(before, after, name)}
        found = named(original, before, after)
        assert found <= differ
        # A term that is less than the tolerance of the baseline may go unnoticed.
        assert all(not changed(before, after, name, rtol=1e-5) for name in differ - found)
        for name in found:
            caught[name] += 1

    assert named(original, before, rows(original)) == set()
    for proxy in original:  # the sign of its result, and no other's
        wrong = replace(proxy, function=negated(proxy.function))
        judge(rows([wrong if other is proxy else other for other in original]))
    judge(rows(original, seed=1))  # other images
    for _, wrong_proxies in mutants(module):
        judge(rows(wrong_proxies))
    assert all(caught.values()), caught
