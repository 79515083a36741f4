@njit(fastmath={"contract"}, error_model="numpy")
def row_sum(n, m, A, x):
    if A.shape != (n, m):
        raise ValueError("A must have shape (n, m)")
    if x.shape != (n,):
        raise ValueError("x must have shape (n,)")
    if may_overlap(x, A):
        raise ValueError("x must not overlap A in memory")
    s = np.empty(n)
    for i in range(n):
        s[i] = 0.0
    for j in range(m):
        for i_2_t in range((n + 63) // 64):
            for i_2 in range(64 * i_2_t, min(n, 64 * i_2_t + 64)):
                s[at(i_2)] += A[at(i_2), j]
    for i_3 in range(n):
        x[i_3] = s[i_3]
