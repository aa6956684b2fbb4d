/* Seven-point Laplacian on an nz x ny x nx grid with spacing h; zero on the boundary. */
static inline int at(int k, int j, int i, int ny, int nx) { return (k * ny + j) * nx + i; }

extern "C" void solve(const float *f, float *lap, float h, int nz, int ny, int nx)
{
    for (int n = 0; n < nz * ny * nx; ++n)
        lap[n] = 0.0f;

    for (int k = 1; k < nz - 1; ++k)
        for (int j = 1; j < ny - 1; ++j)
            for (int i = 1; i < nx - 1; ++i) {
                float d2x = (f[at(k, j, i + 1, ny, nx)] - 2 * f[at(k, j, i, ny, nx)] + f[at(k, j, i - 1, ny, nx)]) / (h * h);
                float d2y = (f[at(k, j + 1, i, ny, nx)] - 2 * f[at(k, j, i, ny, nx)] + f[at(k, j - 1, i, ny, nx)]) / (h * h);
                float d2z = (f[at(k + 1, j, i, ny, nx)] - 2 * f[at(k, j, i, ny, nx)] + f[at(k - 1, j, i, ny, nx)]) / (h * h);
                lap[at(k, j, i, ny, nx)] = d2x + d2y + d2z;
            }
}
