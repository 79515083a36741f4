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
        for k in range(nk):
            for j_2 in range(nj):
                C[i, j_2] += alpha * A[i, k] * B[k, j_2]
