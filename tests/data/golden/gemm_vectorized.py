@njit(fastmath={"contract"}, error_model="numpy")
def gemm(ni, nj, nk, alpha, beta, C, A, B):
    if C.shape != (ni, nj):
        raise ValueError("C must have shape (ni, nj)")
    if A.shape != (ni, nk):
        raise ValueError("A must have shape (ni, nk)")
    if B.shape != (nk, nj):
        raise ValueError("B must have shape (nk, nj)")
    if may_overlap(C, A) or may_overlap(C, B):
        raise ValueError("C must not overlap A or B in memory")
    for i in range(ni):
        for j in range(nj):
            C[i, j] *= beta
        for k_t in range((nk + 1) // 2):
            if 2 * k_t + 1 < nk:
                j_2_rest = 4 * (max(nj, 0) // 4)
                for j_2 in range(0, j_2_rest, 4):
                    store(C, (i, j_2), load(C, (i, j_2), 4) + alpha * A[i, at(2 * k_t)] * load(B, (2 * k_t, j_2), 4))
                    value = load(C, (i, j_2), 4) + alpha * A[i, at(2 * k_t + 1)] * load(B, (2 * k_t + 1, j_2), 4)
                    store(C, (i, j_2), value)
                for j_2 in range(j_2_rest, nj, 4):
                    mask = lanes_between(j_2, j_2, nj, 4)
                    value = (
                        load_masked(C, (i, j_2), mask)
                        + alpha * A[i, at(2 * k_t)] * load_masked(B, (2 * k_t, j_2), mask)
                    )
                    store_masked(C, (i, j_2), value, mask)
                    value = (
                        load_masked(C, (i, j_2), mask)
                        + alpha * A[i, at(2 * k_t + 1)] * load_masked(B, (2 * k_t + 1, j_2), mask)
                    )
                    store_masked(C, (i, j_2), value, mask)
            else:
                # Not vectorized: a loop is inside it.
                for j_2 in range(nj):
                    C_0 = C[i, at(j_2)]
                    for k in range(2 * k_t, min(nk, 2 * k_t + 2)):
                        C_0 += alpha * A[i, at(k)] * B[at(k), at(j_2)]
                    C[i, at(j_2)] = C_0
