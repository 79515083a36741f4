@njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def row_sum(n, m, A, x):
    if A.shape != (n, m):
        raise ValueError("A must have shape (n, m)")
    if x.shape != (n,):
        raise ValueError("x must have shape (n,)")
    if may_overlap(x, A):
        raise ValueError("x must not overlap A in memory")
    for i_t in prange((n + 7) // 8):
        for i in range(8 * i_t, min(n, 8 * i_t + 8)):
            s = 0.0
            for j in range(m):
                s += A[at(i), j]
            x[at(i)] = s
