// y = alpha * A x + beta * b for a row-major M x N matrix.
extern "C" void solve(const float *A, const float *x, const float *b, float *y, float alpha, float beta, int M, int N)
{
    int i, j;
    for (i = 0; i < M; i++) {
        y[i] = 0.0f;
        for (j = 0; j < N; j++)
            y[i] += A[i * N + j] * x[j];
    }
    for (i = 0; i < M; i++)
        y[i] = alpha * y[i] + beta * b[i];
}
