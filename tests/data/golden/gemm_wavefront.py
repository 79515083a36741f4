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
    for i in range(ni):
        for j in range(nj):
            C[i, j] *= beta
    for i_2_t in range((2 * ni + nk + 5) // 8):
        k_t_start = max(i_2_t + 1 - (ni + 7) // 8, (i_2_t + 1) // 2)
        k_t_stop = min(i_2_t + 1, (ni + nk + 6) // 8, (nk + 8 * i_2_t + 22) // 16)
        for k_t in prange(k_t_start, k_t_stop):
            for i_2 in range(max(8 * i_2_t - 8 * k_t, 8 * k_t + 1 - nk), min(ni, 8 * i_2_t + 8 - 8 * k_t)):
                for k_skewed in range(max(8 * k_t, i_2), min(8 * k_t + 8, nk + i_2)):
                    for j_2 in range(nj):
                        k = k_skewed - i_2
                        C[at(i_2), j_2] += alpha * A[at(i_2), at(k)] * B[at(k), j_2]
