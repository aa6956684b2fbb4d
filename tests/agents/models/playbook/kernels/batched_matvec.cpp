// takes: double-in:3x600 double-in:3x30 double-out:3x20 3 20 30
// recipes: simd_reduction parallel_outer
static double dot(const double* p, const double* q, long n)
{
    double acc = 0;
    for (long i = 0; i < n; ++i) acc += p[i] * q[i];
    return acc;
}
extern "C" void solve(const double* A, const double* x, double* y, long nb, long m, long n)
{
    for (long b = 0; b < nb; ++b) {
        const double* mat = A + b * m * n;
        const double* vec = x + b * n;
        double* res = y + b * m;
        for (long i = 0; i < m; ++i) {
            res[i] = dot(&mat[i * n], vec, n);
        }
    }
}
