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
    for i_2_t in range((ni + 3) // 4):
        if 4 * i_2_t + 3 < ni:
            for k in range(nk):
                for j_2 in range(nj):
                    C[at(4 * i_2_t), j_2] += alpha * A[at(4 * i_2_t), k] * B[k, j_2]
                    C[at(4 * i_2_t + 1), j_2] += alpha * A[at(4 * i_2_t + 1), k] * B[k, j_2]
                    C[at(4 * i_2_t + 2), j_2] += alpha * A[at(4 * i_2_t + 2), k] * B[k, j_2]
                    C[at(4 * i_2_t + 3), j_2] += alpha * A[at(4 * i_2_t + 3), k] * B[k, j_2]
        else:
            for k in range(nk):
                for j_2 in range(nj):
                    for i_2 in range(4 * i_2_t, min(ni, 4 * i_2_t + 4)):
                        C[at(i_2), j_2] += alpha * A[at(i_2), k] * B[k, j_2]
