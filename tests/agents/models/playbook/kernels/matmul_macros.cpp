// takes: in:37x53 in:53x141 out:37x141 37 141 53
// recipes: interchange parallel_outer
#define A(i, j) a[(i) * lda + (j)]
#define B(i, j) b[(i) * ldb + (j)]
#define C(i, j) c[(i) * ldc + (j)]
extern "C" void solve(const float *a, const float *b, float *c, int m, int n, int k)
{
    const int lda = k, ldb = n, ldc = n;
    int i, j, p;
    for (i = 0; i < m; i++) {
        for (j = 0; j < n; j++) {
            C(i, j) = 0.0f;
            for (p = 0; p < k; p++)
                C(i, j) += A(i, p) * B(p, j);
        }
    }
}
