@njit(fastmath={"contract"}, error_model="numpy")
def lu(n, A):
    if A.shape != (n, n):
        raise ValueError("A must have shape (n, n)")
    for i in range(1, n):
        for j in range(i):
            if 0 < j:
                A_0 = A[i, j]
                for k in range(j):
                    A_0 -= A[i, k] * A[k, j]
                A[i, j] = A_0
            A[i, j] /= A[j, j]
        for j_2 in range(n - 1, i - 1, -1):
            k_2_rest = 2 * (max(i, 0) // 2)
            for k_2 in range(0, k_2_rest, 2):
                A[i, at(j_2)] -= A[i, at(k_2)] * A[at(k_2), at(j_2)]
                A[i, at(j_2)] -= A[i, at(k_2 + 1)] * A[at(k_2 + 1), at(j_2)]
            for k_2 in range(k_2_rest, i):
                A[i, at(j_2)] -= A[i, at(k_2)] * A[at(k_2), at(j_2)]
