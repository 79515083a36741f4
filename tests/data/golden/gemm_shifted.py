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
    if nj >= 1:
        for i in range(ni):
            for j in range(min(nj + 1, nj + nk)):
                if j < nj:
                    C[i, j] *= beta
                if j >= 1:
                    if 0 < nk:
                        C_0 = C[i, at(j - 1)]
                        for k in range(nk):
                            C_0 += alpha * A[i, k] * B[k, at(j - 1)]
                        C[i, at(j - 1)] = C_0
