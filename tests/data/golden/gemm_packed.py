@njit(fastmath={"contract"}, error_model="numpy")
def gemm_tile(A_packed, B_packed, C, i_2_t, i_2_t_2, j_2_t, k_t, ni, nj, nk):
    i_2 = 2 * i_2_t_2
    j_2 = 4 * j_2_t
    i_2_0 = min(i_2, ni - 1)
    j_2_end_0 = (nj if i_2_0 == i_2 else j_2)
    i_2_1 = min(i_2 + 1, ni - 1)
    j_2_end_1 = (nj if i_2_1 == i_2 + 1 else j_2)
    j_2_end = max(j_2_end_0, j_2_end_1)
    mask_0 = lanes_between(j_2, j_2, j_2_end_0, 4)
    mask_1 = lanes_between(j_2, j_2, j_2_end, 4)
    mask_2 = lanes_between(j_2, j_2, j_2_end_1, 4)
    C_0 = load_masked(C, (i_2_0, j_2), mask_0)
    C_1 = load_masked(C, (i_2_1, j_2), mask_2)
    for k in range(256 * k_t, min(nk, 256 * k_t + 256)):
        x_0 = A_packed[at(i_2_t_2 - 2 * i_2_t), at(k - 256 * k_t), 0]
        B_packed_0 = load(B_packed, (j_2_t, k - 256 * k_t, 0), 4)
        C_0 = C_0 + x_0 * B_packed_0
        x_1 = A_packed[at(i_2_t_2 - 2 * i_2_t), at(k - 256 * k_t), 1]
        C_1 = C_1 + x_1 * B_packed_0
    store_masked(C, (i_2_0, j_2), C_0, mask_0)
    store_masked(C, (i_2_1, j_2), C_1, mask_2)


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
    B_packed = np.zeros(((nj + 3) // 4, min(nk, 256), 4))
    for i in range(ni):
        for j in range(nj):
            C[i, j] *= beta
    for k_t in range((nk + 255) // 256):
        for j_2_t in prange((nj + 3) // 4):
            for k in range(256 * k_t, min(nk, 256 * k_t + 256)):
                for j_2 in range(4 * j_2_t, min(4 * j_2_t + 4, nj)):
                    B_packed[j_2_t, at(k - 256 * k_t), at(j_2 - 4 * j_2_t)] = B[at(k), at(j_2)]
        for i_2_t in prange((ni + 3) // 4):
            A_packed = np.zeros((min(2, (ni - 1) // 2 + 1 - 2 * i_2_t), min(nk - 256 * k_t, 256), 2))
            for i_2_t_2 in range(2 * i_2_t, min(2 * i_2_t + 2, (ni + 1) // 2)):
                for k in range(256 * k_t, min(nk, 256 * k_t + 256)):
                    for i_2 in range(2 * i_2_t_2, min(2 * i_2_t_2 + 2, ni)):
                        A_packed[at(i_2_t_2 - 2 * i_2_t), at(k - 256 * k_t), at(i_2 - 2 * i_2_t_2)] = (
                            alpha * A[at(i_2), at(k)]
                        )
            for j_2_t in range((nj + 3) // 4):
                for i_2_t_2 in range(2 * i_2_t, min(2 * i_2_t + 2, (ni + 1) // 2)):
                    gemm_tile(A_packed, B_packed, C, i_2_t, i_2_t_2, j_2_t, k_t, ni, nj, nk)
