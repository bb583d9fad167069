"""Tests of parsing: texts of programs, and texts with errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zcbench.errors import ProgramError
from zcbench.evolution.language.parse import LONGEST_TEXT, parse
from zcbench.evolution.language.primitives import PRIMITIVES, Kind
from zcbench.evolution.language.programs import Vocabulary

TERMINALS: dict[str, Kind] = {
    **dict.fromkeys(("T1_D", "T1G_D", "T2_N", "T3", "T4_P", "FLAT"), "tensor"),
    **{"MASK": "mask", "0.5": "scalar", "-1": "scalar", "2": "scalar"},
}
V = Vocabulary(TERMINALS, PRIMITIVES)
EZNAS_A = "frobenius(sigmoid(logdet(sign(T1G_D))))"
EZNAS_B = "inv(add(frobenius(T4_P), exp(frobenius(log(sigmoid(log(sigmoid(T4_P))))))))"


@pytest.mark.parametrize(
    "text", [EZNAS_A, EZNAS_B, "T3", "add(0.5, mul(-1, T3))", "kl_div(normalize(T1_D), gt0(T1_D))"]
)
def test_text_comes_back(text: str) -> None:
    assert str(parse(V, text)) == text


BAD = {
    "": "expected a text such as abs(T3)",
    "  \n ": "expected a text such as abs(T3)",
    "abs(T9)": "unknown terminal or operation 'T9'",
    "frobenuis(T3)": "did you mean frobenius?",
    "T1G_d": "did you mean T1G_D",
    "abs": "abs takes 1 argument, got 0",
    "abs()": "expected a name at character 4, got ')'",
    "add(T3)": "add takes 2 arguments, got 1",
    "add(T3, T3, T3)": "add takes 2 arguments, got 3",
    "T3(T3)": "terminal 'T3' takes no arguments, got 1",
    "frobenius(l1(T3))": "frobenius takes tensors and masks, not a scalar: got scalar in 'frobenius(l1(T3))'",
    "matmul(T3, 0.5)": "matmul takes tensors and masks, not a scalar: got tensor and scalar",
    "abs(T3": "expected ',' or ')' at character 6, got the end",
    "abs(": "expected a name at character 4, got the end",
    "abs(T3) T3": "expected the end at character 8, got 'T3'",
    "abs(T3))": "expected the end at character 7, got ')'",
    "abs(T3)(T3)": "expected the end at character 7, got '('",
    "add(T3 T3)": "expected ',' or ')' at character 7, got 'T3'",
    "add(T3,, T3)": "expected a name at character 7, got ','",
    "add(T3, T3,)": "expected a name at character 11, got ')'",
    "(T3)": "expected a name at character 0, got '('",
    ",": "expected a name at character 0, got ','",
    "abs(T3); import os": "expected the end at character 7, got ';'",
    "__import__('os')": "unknown terminal or operation '__import__'",
    "abs(Τ3)": "expected ASCII, got '\\u03a4' at 4",
    "abs(T3\x00)": "unknown terminal or operation 'T3?'",
    "0.50": "unknown terminal or operation '0.50'",
    "abs(" * 10_000 + "T3" + ")" * 10_000: "higher than the limit of 10",
    "T3" + " " * LONGEST_TEXT: "expected at most 100000",
    "x" * 50_000: "unknown terminal or operation 'xxxx",
    "add(" + "T3, " * 10_000: "expected a name at character 40004, got the end",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_text_is_named_on_one_line(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(V, text)
    message = str(caught.value)
    assert BAD[text] in message
    assert "\n" not in message
    assert len(message) < 700


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from(["abs", "add", "(", ")", ",", "T3", " ", "0.5", "mean", "é", "\n", "."]), max_size=12
    )
)
def test_any_text_is_a_program_or_an_error_of_the_user(pieces: list[str]) -> None:
    try:
        program = parse(V, "".join(pieces))
    except ProgramError:
        return
    assert parse(V, str(program)) == program


def test_the_limit_is_that_of_the_vocabulary() -> None:
    ten = "abs(" * 10 + "T3" + ")" * 10
    assert parse(V, ten).height == 10
    with pytest.raises(ProgramError, match="limit of 10"):
        parse(V, f"abs({ten})")
    assert parse(Vocabulary(TERMINALS, PRIMITIVES, 11), f"abs({ten})").height == 11
