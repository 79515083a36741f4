@njit(fastmath={"contract"}, error_model="numpy")
def trmm_tile(A, B, i_t, j_t, m, n):
    i = 2 * i_t
    j = 8 * j_t
    mask_0 = lanes_between(j, j, n, 4)
    mask_1 = lanes_between(j + 4, j, n, 4)
    B_0 = load_masked(B, (i, j), mask_0)
    B_1 = load_masked(B, (i, j + 4), mask_1)
    B_2 = load_masked(B, (i + 1, j), mask_0)
    B_3 = load_masked(B, (i + 1, j + 4), mask_1)
    for k in range(2 * i_t + 2, m):
        x_0 = A[at(k), at(i)]
        B_4 = load_masked(B, (k, j), mask_0)
        B_0 = B_0 + x_0 * B_4
        B_5 = load_masked(B, (k, j + 4), mask_1)
        B_1 = B_1 + x_0 * B_5
        x_1 = A[at(k), at(i + 1)]
        B_2 = B_2 + x_1 * B_4
        B_3 = B_3 + x_1 * B_5
    store_masked(B, (i, j), B_0, mask_0)
    store_masked(B, (i, j + 4), B_1, mask_1)
    store_masked(B, (i + 1, j), B_2, mask_0)
    store_masked(B, (i + 1, j + 4), B_3, mask_1)


@njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def trmm(m, n, alpha, A, B):
    if A.shape != (m, m):
        raise ValueError("A must have shape (m, m)")
    if B.shape != (m, n):
        raise ValueError("B must have shape (m, n)")
    if may_overlap(B, A):
        raise ValueError("B must not overlap A in memory")
    for i_t in range(m // 2):
        for j_t in prange((n + 7) // 8):
            k_full = (2 * i_t + 2 if 2 * i_t + 2 < m else 2 * i_t + 1)
            for k in range(2 * i_t + 1, k_full):
                for i in range(2 * i_t, min(2 * i_t + 2, k)):
                    j_rest = 8 * j_t + 4 * (max(min(n, 8 * j_t + 8) - 8 * j_t, 0) // 4)
                    for j in range(8 * j_t, j_rest, 4):
                        store(B, (i, j), load(B, (i, j), 4) + A[at(k), at(i)] * load(B, (k, j), 4))
                    for j in range(j_rest, min(n, 8 * j_t + 8), 4):
                        mask = lanes_between(j, j, min(n, 8 * j_t + 8), 4)
                        value = load_masked(B, (i, j), mask) + A[at(k), at(i)] * load_masked(B, (k, j), mask)
                        store_masked(B, (i, j), value, mask)
            if 2 * i_t + 2 < m:
                trmm_tile(A, B, i_t, j_t, m, n)
            k_rest = (m if 2 * i_t + 2 < m else 2 * i_t + 1)
            for k in range(k_rest, m):
                for i in range(2 * i_t, min(2 * i_t + 2, k)):
                    j_rest = 8 * j_t + 4 * (max(min(n, 8 * j_t + 8) - 8 * j_t, 0) // 4)
                    for j in range(8 * j_t, j_rest, 4):
                        store(B, (i, j), load(B, (i, j), 4) + A[at(k), at(i)] * load(B, (k, j), 4))
                    for j in range(j_rest, min(n, 8 * j_t + 8), 4):
                        mask = lanes_between(j, j, min(n, 8 * j_t + 8), 4)
                        value = load_masked(B, (i, j), mask) + A[at(k), at(i)] * load_masked(B, (k, j), mask)
                        store_masked(B, (i, j), value, mask)
    for i_2 in range(m):
        for j_2 in range(n):
            B[i_2, j_2] = alpha * B[i_2, j_2]
