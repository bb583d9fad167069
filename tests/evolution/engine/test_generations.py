"""Tests of the evolution on a cheap problem: the fitness of a program is computed from its text."""

import hashlib
import itertools
import os
import random
import signal
import time
import zlib

import numpy as np
import pytest
from zcbench.errors import ConfigError, ProgramError, ResultsError
from zcbench.evolution.engine.config import EngineConfig, check_engine
from zcbench.evolution.engine.fitness import NOTHING
from zcbench.evolution.engine.generations import evolve
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.primitives import PRIMITIVES
from zcbench.evolution.language.programs import Program, Vocabulary
from zcbench.evolution.language.variation import Trees

TERMINALS = dict.fromkeys(["T1_D", "T2_D", "T3"], "tensor")
SMALL = EngineConfig(generations=6, population=12, parents=6, hall=5, max_height=5, seed=3)


def vocabulary(limit=10):
    return Vocabulary(TERMINALS, PRIMITIVES, limit)


class Texts:
    """A problem whose fitness is a digest of the text and the draw; one program in eight is not valid."""

    objectives = 1

    def __init__(self, pause_s=0.0):
        self.pause_s = pause_s
        self.measured = 0

    def _digest(self, text):
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32

    def valid(self, programs):
        return [self._digest(str(program)) > 0.125 for program in programs]

    def behaviour(self, program):
        return program

    def draw(self, rng):
        return rng.random()

    def fitness(self, programs, drawn):
        time.sleep(self.pause_s)
        self.measured += len(programs)
        return [(self._digest(f"{program} {drawn}"),) for program in programs]


def run(folder, config=SMALL, problem=None, limit=10, **more):
    folder.mkdir(exist_ok=True)
    return evolve(problem or Texts(), Trees(vocabulary(limit)), config, folder, {"search": 1}, **more)


def essence(state):
    return state.hall, state.population, [vars(r) | {"wall_s": 0} for r in state.records], state.rng


def test_the_same_seed_is_the_same_search(tmp_path):
    assert essence(run(tmp_path / "a")) == essence(run(tmp_path / "b"))
    other = run(tmp_path / "c", EngineConfig(**{**vars(SMALL), "seed": 4}))
    assert other.hall != run(tmp_path / "a").hall


def test_the_global_generator_is_neither_read_nor_moved(tmp_path):
    random.seed(1)
    first = essence(run(tmp_path / "a"))
    after = random.random()
    random.seed(2)
    assert essence(run(tmp_path / "b")) == first
    random.seed(1)
    assert random.random() == after


def test_a_search_goes_on_where_it_was(tmp_path):
    whole = essence(run(tmp_path / "whole"))
    for generations in range(SMALL.generations + 1):
        state = run(tmp_path / "parts", EngineConfig(**{**vars(SMALL), "generations": generations}))
        assert state.generation == generations
    assert essence(state) == whole
    problem = Texts()
    assert essence(run(tmp_path / "parts", problem=problem)) == whole
    assert problem.measured == 0  # the search had ended


def test_killed_twenty_times_it_ends_as_if_it_had_not_been(tmp_path):
    config = EngineConfig(**{**vars(SMALL), "generations": 25})
    whole = essence(run(tmp_path / "whole", config))
    draw, killed = random.Random(5), 0
    while killed < 20:
        child = os.fork()
        if not child:
            run(tmp_path / "killed", config, Texts(pause_s=0.02))
            os._exit(0)
        time.sleep(draw.uniform(0.0, 0.12))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        killed += 1
    assert killed > 5  # the test makes sense only if the search was killed several times
    assert essence(run(tmp_path / "killed", config)) == whole


def test_programs_are_valid_distinct_and_low_enough(tmp_path):
    problem = Texts()
    state = run(tmp_path, problem=problem, limit=6, config=EngineConfig(**{**vars(SMALL), "height_limit": 6}))
    words = vocabulary()
    programs = [parse(words, text) for text, _ in state.population]
    assert len(set(programs)) == SMALL.population
    assert all(problem.valid(programs))
    assert max(program.height for program in programs) <= 6
    assert all(words.canonical(program) == program for program in programs)


def test_programs_that_do_the_same_count_once(tmp_path):
    class Sizes(Texts):
        def behaviour(self, program):
            return program.size

    state = run(tmp_path, problem=Sizes())
    for records in (state.population, state.hall):
        sizes = [parse(vocabulary(), text).size for text, _ in records]
        assert len(set(sizes)) == len(sizes)


def test_the_hall_of_fame_is_the_best_ever_met(tmp_path):
    met = {}

    def each(state):
        for text, (fitness,) in state.population:
            met[text] = max(met.get(text, fitness), fitness)

    state = run(tmp_path, each=each)
    best = sorted(met.values(), reverse=True)[: SMALL.hall]
    assert [values[0] for _, values in state.hall] == best
    assert all(a.hall <= b.hall for a, b in zip(state.records, state.records[1:], strict=False))
    assert [record.best for record in state.records] == [
        max(r.best for r in state.records if r.generation == g) for g in range(SMALL.generations + 1)
    ]


def test_selection_is_worth_something(tmp_path):
    """If children inherit fitness, the evolution beats the same number of random programs."""

    class Shares(Texts):
        def fitness(self, programs, drawn):
            return [(sum(node.name == "relu" for node in p.nodes()) / (1 + p.size),) for p in programs]

    config = EngineConfig(**{**vars(SMALL), "generations": 15, "population": 30, "max_height": 6})
    bred = run(tmp_path / "bred", config, Shares())
    grown = run(tmp_path / "grown", EngineConfig(**{**vars(config), "immigrants": 1.0}), Shares())
    assert bred.hall[0][1][0] > grown.hall[0][1][0]


def test_the_elite_stands_in_the_next_generation_too(tmp_path):
    populations = []

    def each(state):
        populations.append({text: values[0] for text, values in state.population})

    config = EngineConfig(**{**vars(SMALL), "elite": 3})
    whole = run(tmp_path / "whole", config, each=each)
    changed = 0
    for before, after in itertools.pairwise(populations):
        best = sorted(before, key=before.get)[-3:]
        assert set(best) <= set(after)
        changed += any(before[text] != after[text] for text in best)  # the elite is measured again on the new draw
    assert changed == SMALL.generations
    for generations in range(SMALL.generations + 1):
        state = run(tmp_path / "parts", EngineConfig(**{**vars(config), "generations": generations}))
    assert essence(state) == essence(whole)


@pytest.mark.parametrize("parsimony", [0.0, 0.001])
def test_of_equals_the_smallest_is_of_the_elite(tmp_path, parsimony):
    class Heights(Texts):
        def fitness(self, programs, drawn):
            return [(program.height / 16,) for program in programs]

    populations = []
    config = EngineConfig(**{**vars(SMALL), "elite": 3, "generations": 1, "parsimony": parsimony})
    run(tmp_path, config, Heights(), each=lambda state: populations.append(state.population))
    before, after = ([parse(vocabulary(), text) for text, _ in population] for population in populations)
    heights = sorted({program.height for program in before}, reverse=True)[:3]
    least = [min(program.size for program in before if program.height == height) for height in heights]
    assert [(program.height, program.size) for program in after[:3]] == list(zip(heights, least, strict=True))
    assert set(after[:3]) <= set(before)


@pytest.mark.parametrize("parsimony", [0.0, 0.001])
def test_what_ranks_nothing_is_not_of_the_elite(tmp_path, parsimony):
    class Never(Texts):
        def fitness(self, programs, drawn):
            return [(NOTHING,) for _ in programs]

    populations = {}
    for elite in (0, 6):
        config = EngineConfig(**{**vars(SMALL), "elite": elite, "parsimony": parsimony})
        found = populations[elite] = []
        with pytest.raises(ConfigError, match="ranks anything"):
            run(tmp_path / str(elite), config, Never(), each=lambda state, found=found: found.append(state.population))
    assert populations[6] == populations[0]


def test_what_ranks_like_a_fitter_program_is_neither_parent_nor_elite(tmp_path):
    class Orders(Texts):
        """Programs of one height rank the networks alike, though for the last digits."""

        def behaviour(self, program):
            order = np.random.RandomState(program.height).permutation(50).astype(float)
            return (order + 1e-3 * np.random.RandomState(program.size).rand(50)).tobytes()

        def fitness(self, programs, drawn):
            return [(program.height / 16 + program.size / 1e4,) for program in programs]

    populations = []
    config = EngineConfig(**{**vars(SMALL), "elite": 3, "generations": 1, "alike": 0.99})
    run(tmp_path, config, Orders(), each=lambda state: populations.append(state.population))
    before, after = ([parse(vocabulary(), text) for text, _ in population] for population in populations)
    heights = sorted({program.height for program in before}, reverse=True)[:3]
    most = [max(program.size for program in before if program.height == height) for height in heights]
    assert [(program.height, program.size) for program in after[:3]] == list(zip(heights, most, strict=True))


def test_a_population_of_one_kind_still_breeds(tmp_path):
    class One(Texts):
        def behaviour(self, program):
            return np.append(np.arange(9.0), 9 + program.size / 1e6).tobytes()

    config = EngineConfig(**{**vars(SMALL), "elite": 3, "generations": 1, "alike": 0.5})
    assert run(tmp_path, config, One()).generation == 1


def test_a_population_of_which_one_program_ranks_still_breeds(tmp_path):
    class Few(Texts):
        def behaviour(self, program):
            return np.random.RandomState(program.size).rand(9).tobytes()

        def fitness(self, programs, drawn):
            return [(0.5 if place == 0 else NOTHING,) for place, _ in enumerate(programs)]

    config = EngineConfig(**{**vars(SMALL), "elite": 3, "generations": 1, "alike": 0.5})
    assert run(tmp_path, config, Few()).generation == 1


def test_what_one_starts_with_is_in_the_first_generation(tmp_path):
    text = "frobenius(sigmoid(logdet(sign(T1_D))))"
    config = EngineConfig(**{**vars(SMALL), "generations": 0, "start": [text]})
    assert run(tmp_path, config).population[0][0] == text


def test_parsimony_and_pareto(tmp_path):
    class Same(Texts):
        def fitness(self, programs, drawn):
            return [(0.5,) for _ in programs]

    plain = run(tmp_path / "p", EngineConfig(**{**vars(SMALL), "parsimony": 0.01}), Same())
    sizes = [parse(vocabulary(), text).size for text, _ in plain.hall]
    assert sizes == sorted(sizes)
    assert plain.hall[0][1][0] == pytest.approx(0.5 - 0.01 * sizes[0])
    pareto = run(tmp_path / "q", EngineConfig(**{**vars(SMALL), "pareto": True}), Same())
    for text, (fitness, size) in pareto.population:
        assert fitness == 0.5
        assert size == parse(vocabulary(), text).size


def test_the_hall_of_a_pareto_search_is_what_nobody_dominates(tmp_path):
    class Hashed(Texts):
        def fitness(self, programs, drawn):
            return [(zlib.crc32(str(p).encode()) % 1000 / 1000,) for p in programs]

    met = {}
    config = EngineConfig(**{**vars(SMALL), "pareto": True, "hall": 1})
    state = run(tmp_path / "whole", config, Hashed(), each=lambda s: met.update(s.population))
    front = {
        text: (fitness, size)
        for text, (fitness, size) in met.items()
        if not any(f >= fitness and s <= size and (f, s) != (fitness, size) for f, s in met.values())
    }
    assert {text: tuple(values) for text, values in state.hall} == front
    assert len(front) > 1  # more than `hall`
    run(tmp_path / "parts", EngineConfig(**{**vars(config), "generations": 2}), Hashed())
    assert run(tmp_path / "parts", config, Hashed()).hall == state.hall


def test_a_constant_fitness_is_named(tmp_path):
    class Nothing(Texts):
        def fitness(self, programs, drawn):
            return [(NOTHING,) for _ in programs]

    with pytest.raises(ConfigError, match="no program of any generation ranks anything"):
        run(tmp_path, problem=Nothing())


def test_no_valid_program_is_named(tmp_path, monkeypatch):
    class Never(Texts):
        def valid(self, programs):
            return [False for _ in programs]

    monkeypatch.setattr("zcbench.evolution.engine.generations.PATIENCE", 10)
    with pytest.raises(ConfigError, match="only 0 are valid"):
        run(tmp_path, problem=Never())


@pytest.mark.parametrize(
    "wrong",
    [
        {"population": 1},
        {"generations": -1},
        {"crossover": 0.8, "mutation": 0.4},
        {"immigrants": 1.5},
        {"elite": -1},
        {"alike": 1.5},
        {"alike": -0.1},
        {"elite": 12},
        {"min_height": 5, "max_height": 4},
        {"max_height": 12},
        {"tournament": 0},
    ],
)
def test_senseless_hyper_parameters_are_refused(wrong):
    with pytest.raises(ConfigError, match="engine: expected"):
        check_engine(EngineConfig(**{**vars(SMALL), **wrong}))


def test_a_program_to_start_with_has_to_be_one(tmp_path):
    with pytest.raises(ProgramError):
        run(tmp_path, EngineConfig(**{**vars(SMALL), "start": ["relu(T9)"]}))


@pytest.mark.parametrize("fault", ["{", "[]", '{"recipe": 1}', "", "x" * 100])
def test_a_torn_state_is_named(tmp_path, fault):
    run(tmp_path, EngineConfig(**{**vars(SMALL), "generations": 1}))
    (tmp_path / "state.json").write_text(fault)
    with pytest.raises(ResultsError, match=r"state .*state\.json is torn"):
        run(tmp_path)


def test_another_search_is_not_gone_on_from(tmp_path):
    run(tmp_path, EngineConfig(**{**vars(SMALL), "generations": 1}))
    with pytest.raises(ResultsError, match=r"holds another search \(search differ\)"):
        evolve(Texts(), Trees(vocabulary()), SMALL, tmp_path, {"search": 2})


def test_crossing_and_mutating_make_programs_of_the_right_sorts():
    trees, rng = Trees(vocabulary()), random.Random(0)
    grown = [trees.grow(rng, 2, 6) for _ in range(300)]
    for program in grown:
        vocabulary().kind(program)  # raises if an argument has the wrong sort
        assert program.height <= 7
    for first, second in itertools.pairwise(grown):
        before = str(first), str(second)
        crossed, mutated = trees.cross(rng, first, second), trees.mutate(rng, first)
        vocabulary(99).kind(crossed)
        vocabulary(99).kind(mutated)
        assert before == (str(first), str(second))
    assert any(trees.cross(rng, a, b) not in {a, b} for a, b in itertools.pairwise(grown))


def test_heights_of_grown_programs_are_what_was_asked():
    """The canonical form may be lower than the program; a leaf that must be a scalar adds one to the height."""
    trees, rng = Trees(vocabulary()), random.Random(1)
    heights = [trees.grow(rng, 2, 10).height for _ in range(500)]
    assert max(heights) <= 11
    assert all(heights.count(height) > 10 for height in range(2, 11))
    assert sum(height < 2 for height in heights) < 50


def test_a_program_alone_is_no_crossing():
    trees = Trees(vocabulary())
    leaf, other = Program("T1_D"), trees.parse("relu(T2_D)")
    assert trees.cross(random.Random(0), leaf, other) == leaf
