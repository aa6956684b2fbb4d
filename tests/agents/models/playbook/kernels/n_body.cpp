// takes: in:203 in:203 out:203 out:203 203
// recipes: interchange parallel_outer
#include <math.h>
extern "C" void solve(const float *x, const float *m, float *ax, float *ay, int n)
{
    for (int i = 0; i < n; i++) {
        ax[i] = ay[i] = 0.0f;
        for (int j = 0; j < n; j++) {
            float dx = x[j] - x[i];
            float inv = 1.0f / sqrtf(dx * dx + 1e-1f);
            ax[i] += m[j] * inv * dx;
            ay[i] += m[j] * inv * inv;
        }
    }
}
