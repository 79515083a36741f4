"""Functions whose subscripts and numbers of iterations depend on data, as people write them.

The loops around what data decide are scheduled; the rest is one step each.
"""

import numpy as np
from jaxtyping import Float64, Int64

SIZES = {"n": 20_000, "m": 24, "k": 16}


def sparse_product(
    start: Int64[np.ndarray, "n+1"],
    column: Int64[np.ndarray, "m"],
    value: Float64[np.ndarray, "m"],
    x: Float64[np.ndarray, "k"],
    y: Float64[np.ndarray, "n"],
) -> None:
    for i in range(len(y)):
        total = 0.0
        for e in range(start[i], start[i + 1]):
            total += value[e] * x[column[e]]
        y[i] = total


def histogram(bins: Int64[np.ndarray, "n"], counts: Int64[np.ndarray, "k"]) -> None:
    for b in range(counts.shape[0]):
        counts[b] = 0
    for i in range(bins.shape[0]):
        counts[bins[i]] += 1


def histogram_of_rows(image: Int64[np.ndarray, "n m"], counts: Int64[np.ndarray, "n k"]) -> None:
    rows, columns = image.shape
    for r in range(rows):
        for b in range(counts.shape[1]):
            counts[r, b] = 0
        for c in range(columns):
            counts[r, image[r, c]] += 1


def escape_times(x: Float64[np.ndarray, "m"], y: Float64[np.ndarray, "n"], limit: int) -> Int64[np.ndarray, "n m"]:
    times = np.zeros((len(y), len(x)), dtype=np.int64)
    for i in range(len(y)):
        for j in range(len(x)):
            real, imaginary, count = 0.0, 0.0, 0
            while count < limit and real * real + imaginary * imaginary < 4.0:
                squared = real * real - imaginary * imaginary
                imaginary = 2.0 * real * imaginary + y[i]
                real = squared + x[j]
                count += 1
            times[i, j] = count
    return times


def binary_search(
    table: Float64[np.ndarray, "m"], queries: Float64[np.ndarray, "n"], found: Int64[np.ndarray, "n"]
) -> None:
    for q in range(len(queries)):
        low, high = 0, len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < queries[q]:
                low = middle + 1
            else:
                high = middle
        found[q] = low


def gather_rows(
    table: Float64[np.ndarray, "k m"], rows: Int64[np.ndarray, "n"], out: Float64[np.ndarray, "n m"]
) -> None:
    for i in range(rows.shape[0]):
        for j in range(table.shape[1]):
            out[i, j] = table[rows[i], j]


def scatter_rows(
    values: Float64[np.ndarray, "n m"], rows: Int64[np.ndarray, "n"], table: Float64[np.ndarray, "k m"]
) -> None:
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            table[rows[i], j] += values[i, j]


def sample_bilinear(
    image: Float64[np.ndarray, "k m"],
    u: Float64[np.ndarray, "n"],
    v: Float64[np.ndarray, "n"],
    out: Float64[np.ndarray, "n"],
) -> None:
    height, width = image.shape
    for i in range(len(out)):
        x = min(max(u[i], 0.0), width - 1.0)
        y = min(max(v[i], 0.0), height - 1.0)
        left, top = int(x), int(y)
        right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
        a, b = x - left, y - top
        upper = (1.0 - a) * image[top, left] + a * image[top, right]
        lower = (1.0 - a) * image[bottom, left] + a * image[bottom, right]
        out[i] = (1.0 - b) * upper + b * lower


def first_above(A: Float64[np.ndarray, "n m"], limit: float, first: Int64[np.ndarray, "n"]) -> None:
    for i in range(A.shape[0]):
        first[i] = -1
        for j in range(A.shape[1]):
            if A[i, j] > limit:
                first[i] = j
                break
