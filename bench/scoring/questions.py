"""Questions to Parquet files, answered by DuckDB with bounded memory, without network and without other files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ...environment import matching
from ...errors import ResultsError, one_line
from ..study.recipe import Item, Recipe
from .parts import ATTEMPTS, KEY, LONGEST_TEXT, SCHEMA, STATUSES, TEXTS, memory_named, out_of_memory

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Memory of DuckDB; what does not fit goes to a temporary folder.
MEMORY_MIB = 192

_SAID = ("device", "value", "status", "message", "wall_s", "peak_mib", "written_ns")


@contextmanager
def connected(*folders: Path) -> Iterator[DuckDBPyConnection]:
    """Give a connection that may read the files of some folders, and nothing else.

    Raises:
        ResultsError: Memory ran out, or a file cannot be read.
        FileNotFoundError: A file is there no more.
    """
    import duckdb  # takes a quarter of a second

    where = ", ".join(map(str, folders))
    with TemporaryDirectory(prefix="zcbench-") as spill:
        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{MEMORY_MIB}MiB",
                "threads": min(os.cpu_count() or 1, 4),
                "temp_directory": spill,
                "preserve_insertion_order": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "python_enable_replacements": "false",
            },
        )
        try:
            allowed = ", ".join(text(str(folder)) for folder in (spill, *folders))
            connection.execute(f"SET allowed_directories = [{allowed}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            with memory_named(f"results {where}"):
                yield connection
        except duckdb.Error as error:
            said = one_line(str(error))
            if isinstance(error, duckdb.OutOfMemoryException) or "alloc" in said:
                raise out_of_memory(f"results {where}") from None
            if isinstance(error, duckdb.IOException) and ("No files found" in said or "No such file" in said):
                raise FileNotFoundError(said) from None
            raise ResultsError(f"results {where} cannot be read: {said[:200]}") from None
        finally:
            connection.close()


def text(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def listed(values: Sequence[object]) -> str:
    """Return values as a list of SQL."""
    return ", ".join(text(value) if isinstance(value, str) else str(value) for value in values)


def table_of(files: Sequence[Path]) -> str:
    """Return files as a table of SQL. Names of folders are no columns, and an empty list is an empty table."""
    if files:
        return f"read_parquet([{listed(list(map(str, files)))}], hive_partitioning=false)"
    types = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
    nothing = ", ".join(f"NULL::{types[field.type]} AS {field.name}" for field in SCHEMA)
    return f"(SELECT {nothing}, '' AS filename WHERE false)"


#: Whether a row is an attempt, as SQL.
FAILED = f"status IN ({listed(sorted(ATTEMPTS))})"


def check_cells(connection: DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Refuse files that hold what zcbench does not write.

    Raises:
        ResultsError: A status is unknown, or a text is too long.
    """
    longest = f"greatest({', '.join(f'strlen({name})' for name in TEXTS)})"
    found = connection.execute(
        f"SELECT filename, status[:50], {longest} FROM {table_of(files)} "
        f"WHERE status NOT IN ({listed(sorted(STATUSES))}) OR {longest} > {LONGEST_TEXT} LIMIT 1"
    ).fetchone()
    if found and found[2] > LONGEST_TEXT:
        raise ResultsError(
            f"results part {found[0]}: expected texts of at most {LONGEST_TEXT:,} bytes, got one of {found[2]:,}: "
            "delete it"
        )
    if found:
        raise ResultsError(
            f"results part {found[0]}: expected a status of {', '.join(sorted(STATUSES))}, got '{found[1]}': delete it"
        )


def rows_in(file: Path, recipe: Recipe) -> pd.DataFrame:
    """Return the rows of a recipe that a file in the columns of the store holds; see `Store.rows`.

    Raises:
        ResultsError: The file cannot be read, or two rows have one key and different values.
    """
    with connected(file.parent) as connection:
        return Found(connection, [file], recipe).frame()


class Found:
    """The rows of a recipe that files hold: for each key the score, or else the latest attempt.

    Args:
        connection: Connection that may read the files.
        files: Files in the columns of the store.
        recipe: Recipe of the rows.
        whole: Whether `frame` is wanted too, which takes memory for all columns.

    Attributes:
        items: Items of the recipe: all of a key but the network.
        place: Place of every row `(n,)` among all keys: place of the network, times the number of items, plus place
            of the item. It rises.
        failed: Whether the row is an attempt `(n,)`.
        attempts: Number of attempts of the key `(n,)`.
        table: What the rows say, `n` rows; without `whole`, only what decides between rows of one key.

    Raises:
        ResultsError: Two rows have one key and different values.
    """

    def __init__(
        self, connection: DuckDBPyConnection, files: Sequence[Path], recipe: Recipe, *, whole: bool = True
    ) -> None:
        self.items = list(dict.fromkeys(recipe.items()))
        self.recipe = recipe
        self._connection, self._files = connection, files
        networks = pa.table({"architecture": recipe.architectures, "network": range(len(recipe.accuracies))})
        connection.register("networks", networks)
        columns = zip(Item._fields, zip(*self.items, strict=True), strict=True)
        counts = [recipe.networks_of(item.proxy) for item in self.items]
        connection.register("items", pa.table({**dict(columns), "item": range(len(self.items)), "networks_of": counts}))
        # The lists let DuckDB pass over groups of rows by their least and greatest values.
        only = " AND ".join(
            f"{name} IN ({listed(sorted({getattr(item, name) for item in self.items}))})"
            for name in ("proxy", "batch_size", "seed")
        )
        once = ("space", "dataset", "torch")
        same = " AND ".join(f"{name} = {text(getattr(recipe, name))}" for name in once)
        like = matching(recipe.device)
        same += f" AND device LIKE {text(like)}"
        if like.endswith("%"):
            same += " AND device NOT LIKE '% float%'"
        self._matching = (
            f"FROM {table_of(files)} JOIN networks USING (architecture) JOIN items USING ({', '.join(Item._fields)}) "
            f"WHERE network < networks_of AND {only} AND {same}"
        )
        said = _SAID if whole else ("device", "value", "written_ns")
        rows = connection.sql(
            f"SELECT network * {len(self.items)} + item AS place, {FAILED} AS failed, {', '.join(said)} "
            + self._matching
        ).to_arrow_table()
        place, failed, written, value = (rows[name].to_numpy() for name in ("place", "failed", "written_ns", "value"))
        device = rows["device"].combine_chunks().dictionary_encode()
        machines = device.dictionary.to_pylist()
        machine = _ranks(machines)[device.indices.to_numpy()]
        # A score comes before attempts, the first score and the latest attempt before others. Of several machines, the
        # first by name counts, whoever asks.
        order = np.lexsort((np.where(failed, -written, written), machine, failed, place))
        place, failed, value, machine = place[order], failed[order], value[order], machine[order]
        first = np.append(True, place[1:] != place[:-1])[: len(place)]
        self._check_values(place, failed, value, machine, sorted(machines))
        times = np.unique(np.stack([place[failed], written[order][failed]]), axis=1)[0]
        self.place, self.failed = place[first], failed[first]
        self.attempts = np.searchsorted(times, self.place, "right") - np.searchsorted(times, self.place, "left")
        self.table = rows.select(list(said)).take(pa.array(order[first]))

    def _check_values(
        self,
        place: NDArray[np.int64],
        failed: NDArray[np.bool_],
        value: NDArray[np.float64],
        machine: NDArray[np.int64],
        machines: Sequence[str],
    ) -> None:
        twice = (place[1:] == place[:-1]) & ~failed[1:] & ~failed[:-1] & (machine[1:] == machine[:-1])
        same = (value[1:] == value[:-1]) | (np.isnan(value[1:]) & np.isnan(value[:-1]))
        if not (differs := np.flatnonzero(twice & ~same)).size:
            return
        wrong, of = int(place[differs[0]]), text(machines[machine[differs[0]]])
        network, item = divmod(wrong, len(self.items))
        files = self._connection.execute(
            f"SELECT value, min(filename) {self._matching} AND network = {network} AND item = {item} AND device = {of} "
            f"AND NOT {FAILED} "
            "GROUP BY value ORDER BY 1"
        ).fetchall()
        key = dict(zip(KEY, self.recipe.key_of(self.recipe.architectures[network], self.items[item]), strict=True))
        parts = " and ".join(dict.fromkeys(str(file) for _, file in files[:2]))
        values = " and ".join(repr(found) for found, _ in files[:2])
        raise ResultsError(
            f"results hold different values for one key, {values} in {parts}: delete the wrong part; the key is {key}"
        )

    def frame(self) -> pd.DataFrame:
        """Return the rows in the columns of a row, `written_ns` and `attempts`, in the order of their keys."""
        network, item = np.divmod(self.place, len(self.items))
        order = np.lexsort((_ranks(self.items)[item], _ranks(self.recipe.architectures)[network]))
        network, item = network[order], item[order]
        columns = {"architecture": _spread(self.recipe.architectures, network)}
        for name, values in zip(Item._fields, zip(*self.items, strict=True), strict=True):
            columns[name] = _spread(values, item)
        for name in ("space", "dataset", "torch"):
            columns[name] = _spread([getattr(self.recipe, name)], np.zeros_like(item))
        said = self.table.take(pa.array(order))
        columns["device"] = said["device"]
        whole = pa.table(
            {**{name: columns[name] for name in KEY}, **{name: said[name] for name in _SAID if name not in KEY}}
        )
        frame: pd.DataFrame = whole.append_column("attempts", pa.array(self.attempts[order])).to_pandas()
        return frame


def _ranks(values: Sequence[Any]) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return ranks


def _spread(values: Sequence[object], places: NDArray[np.int64]) -> pa.Array:
    return pa.array(list(values)).take(pa.array(places))
