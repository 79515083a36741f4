@njit(fastmath={"contract"}, error_model="numpy")
def gemm_tile(A, alpha, B, C, i_2_t, j_2_t, ni, nj, nk):
    i_2 = 2 * i_2_t
    j_2 = 8 * j_2_t
    i_2_0 = min(i_2, ni - 1)
    j_2_end_0 = (nj if i_2_0 == i_2 else j_2)
    i_2_1 = min(i_2 + 1, ni - 1)
    j_2_end_1 = (nj if i_2_1 == i_2 + 1 else j_2)
    j_2_end = max(j_2_end_0, j_2_end_1)
    mask_0 = lanes_between(j_2, j_2, j_2_end_0, 4)
    mask_1 = lanes_between(j_2, j_2, j_2_end, 4)
    mask_2 = lanes_between(j_2 + 4, j_2, j_2_end_0, 4)
    mask_3 = lanes_between(j_2 + 4, j_2, j_2_end, 4)
    mask_4 = lanes_between(j_2, j_2, j_2_end_1, 4)
    mask_5 = lanes_between(j_2 + 4, j_2, j_2_end_1, 4)
    C_0 = load_masked(C, (i_2_0, j_2), mask_0)
    C_1 = load_masked(C, (i_2_0, j_2 + 4), mask_2)
    C_2 = load_masked(C, (i_2_1, j_2), mask_4)
    C_3 = load_masked(C, (i_2_1, j_2 + 4), mask_5)
    for k in range(nk):
        x_0 = alpha * A[at(i_2_0), k]
        B_0 = load_masked(B, (k, j_2), mask_1)
        C_0 = C_0 + x_0 * B_0
        B_1 = load_masked(B, (k, j_2 + 4), mask_3)
        C_1 = C_1 + x_0 * B_1
        x_1 = alpha * A[at(i_2_1), k]
        C_2 = C_2 + x_1 * B_0
        C_3 = C_3 + x_1 * B_1
    store_masked(C, (i_2_0, j_2), C_0, mask_0)
    store_masked(C, (i_2_0, j_2 + 4), C_1, mask_2)
    store_masked(C, (i_2_1, j_2), C_2, mask_4)
    store_masked(C, (i_2_1, j_2 + 4), C_3, mask_5)


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
    for i_2_t in range((ni + 1) // 2):
        for j_2_t in range((nj + 7) // 8):
            if 0 < nk:
                gemm_tile(A, alpha, B, C, i_2_t, j_2_t, ni, nj, nk)
