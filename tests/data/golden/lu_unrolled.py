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
        for k_2 in range(i):
            j_2_rest = i + 4 * (max(n - i, 0) // 4)
            for j_2 in range(i, j_2_rest, 4):
                A[i, at(j_2)] -= A[i, k_2] * A[k_2, at(j_2)]
                A[i, at(j_2 + 1)] -= A[i, k_2] * A[k_2, at(j_2 + 1)]
                A[i, at(j_2 + 2)] -= A[i, k_2] * A[k_2, at(j_2 + 2)]
                A[i, at(j_2 + 3)] -= A[i, k_2] * A[k_2, at(j_2 + 3)]
            for j_2 in range(j_2_rest, n):
                A[i, at(j_2)] -= A[i, k_2] * A[k_2, at(j_2)]
