import math
import sys
from xml.etree import ElementTree as ET

import pytest
from zcbench.bench.report import figures
from zcbench.errors import ResultsError
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.programs import Program
from zcbench.evolution.study.draw import trees
from zcbench.evolution.study.explain import Response, responses
from zcbench.evolution.study.found import STATISTICS

A = parse(STATISTICS, "frobenius(sigmoid(logdet(sign(T1G_D))))")
WIDE = parse(
    STATISTICS,
    "eq(exp(mul(numel(add(mean(T4G_P), relu(T4_N))), zeros_like(kl_div(T4_N, T2_D)))), gt(numel(sub(square(T1G_D), "
    "sign(matmul(T4G_N, T4G_N)))), square(frobenius(det(normalize(T4G_P))))))",
)


def texts(path):
    return [element.text for element in ET.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")]


def names(program):
    return sorted(node.name for node in program.nodes())


def test_every_node_of_every_tree_is_drawn(tmp_path):
    trees(tmp_path / "in" / "best.svg", {"the first: 0.688": A, "the second": WIDE})
    found = texts(tmp_path / "in" / "best.svg")
    assert {"the first: 0.688", "the second"} <= set(found)
    assert sorted(set(found) - {"the first: 0.688", "the second"}) == sorted({*names(A), *names(WIDE)})
    for name in set(names(WIDE)):
        assert found.count(name) == names(A).count(name) + names(WIDE).count(name)


@pytest.mark.parametrize("program", [A, WIDE, Program("T3"), Program("add", (Program("T3"), Program("T3")))])
def test_no_node_lies_on_another_or_leaves_the_picture(program, monkeypatch, tmp_path):
    kept = []
    monkeypatch.setattr(figures, "save", lambda made, path: kept.append(made))
    trees(tmp_path / "x.svg", {"one": A, "it": program, "three": A})
    (made,) = kept
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(made)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for axes in made.axes for text in axes.texts]
    assert len(boxes) == 2 * A.size + program.size
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert made.bbox.x0 <= box.x0 < box.x1 <= made.bbox.x1
        assert made.bbox.y0 <= box.y0 < box.y1 <= made.bbox.y1


def test_a_program_is_drawn_beside_its_response(tmp_path):
    trees(tmp_path / "x.svg", {"": A}, responses(A, draws=4))
    found = texts(tmp_path / "x.svg")
    assert set(names(A)) <= set(found)
    for label in ("kernel size", "channels", "activation size", "1", "7", "8", "64", "4", "32"):
        assert label in found
    assert found.count("value: mean and standard deviation") == 3


def test_a_program_without_responses_is_drawn_alone(tmp_path):
    trees(tmp_path / "x.svg", {"": A}, [])
    assert sorted(texts(tmp_path / "x.svg")) == names(A)


def test_values_that_are_not_finite_are_left_out(tmp_path):
    found = [Response("kernel", k, 16, 8, math.nan if k == 3 else 1.0 * k, math.nan, 0.5) for k in (1, 3, 5)]
    trees(tmp_path / "x.svg", {"": A}, found)
    assert "kernel size" in texts(tmp_path / "x.svg")
    trees(tmp_path / "y.svg", {"": A}, [Response("size", 3, 16, s, math.nan, math.nan, 0.0) for s in (4, 8)])
    assert "activation size" in texts(tmp_path / "y.svg")


def test_equal_programs_give_equal_bytes(tmp_path):
    for name in "ab":
        trees(tmp_path / f"{name}.svg", {"it": WIDE})
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_largest_program_is_drawn_too(tmp_path):
    program = Program("T1G_D")
    for _ in range(7):
        program = Program("add", (program, program))
    trees(tmp_path / "x.svg", {"it": program})
    assert texts(tmp_path / "x.svg").count("T1G_D") == 128


@pytest.mark.parametrize("draw", [lambda path: trees(path, {"it": A}), lambda path: trees(path, {"": A}, [])])
def test_without_matplotlib_it_says_what_is_missing(draw, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ResultsError, match=r"expected matplotlib, .*zcbench\[report\]"):
        draw(tmp_path / "x.svg")
    assert not list(tmp_path.iterdir())
