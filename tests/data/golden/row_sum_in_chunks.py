@njit(parallel=True, fastmath={"contract"}, error_model="numpy")
def row_sum(n, m, A, x):
    if A.shape != (n, m):
        raise ValueError("A must have shape (n, m)")
    if x.shape != (n,):
        raise ValueError("x must have shape (n,)")
    if may_overlap(x, A):
        raise ValueError("x must not overlap A in memory")
    i_trips = n
    i_threads = get_num_threads()
    i_turns = (i_trips + 4 * i_threads - 1) // (4 * i_threads)
    for i_count in prange(i_threads * i_turns):
        i_chunk = i_count % i_turns * i_threads + i_count // i_turns
        for i_place in range(4 * i_chunk, min(4 * i_chunk + 4, i_trips)):
            i = i_place
            s = 0.0
            for j in range(m):
                s += A[at(i), j]
            x[at(i)] = s
