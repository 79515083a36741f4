@njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def gemm(ni, nj, nk, alpha, beta, C, A, B):
    if C.shape != (ni, nj):
        raise ValueError("C must have shape (ni, nj)")
    if A.shape != (ni, nk):
        raise ValueError("A must have shape (ni, nk)")
    if B.shape != (nk, nj):
        raise ValueError("B must have shape (nk, nj)")
    if may_overlap(C, A) or may_overlap(C, B):
        raise ValueError("C must not overlap A or B in memory")
    for i in prange(ni):
        for j in range(nj):
            C[i, j] *= beta
    for i_2_t in prange((ni + 31) // 32):
        for k_t in range((nk + 31) // 32):
            for j_2_t in range((nj + 63) // 64):
                for i_2 in range(32 * i_2_t, min(ni, 32 * i_2_t + 32)):
                    for k in range(32 * k_t, min(nk, 32 * k_t + 32)):
                        for j_2 in range(64 * j_2_t, min(nj, 64 * j_2_t + 64)):
                            C[at(i_2), at(j_2)] += alpha * A[at(i_2), at(k)] * B[at(k), at(j_2)]
