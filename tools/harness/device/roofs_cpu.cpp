// Measures what this machine can do at most: memory bandwidth, fused multiply-adds, an empty call. Prints one JSON object.
//   roofs THREADS LAST_LEVEL_CACHE_BYTES
// Every figure comes as all of its tries; the reader takes the best. Rates are per second, times seconds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Runs work(thread) on all threads from a common start and returns the seconds from the first start to the last end; each thread's own
// seconds go to `own` when it is given.
double together(int threads, const std::function<void(int)>& work, std::vector<double>* own = nullptr) {
    std::vector<double> begin(threads), end(threads);
    std::atomic<int> ready{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            ready.fetch_add(1);
            while (ready.load() < threads) std::this_thread::yield();
            begin[t] = now();
            work(t);
            end[t] = now();
        });
    }
    for (auto& thread : pool) thread.join();
    for (int t = 0; own && t < threads; ++t) (*own)[t] = end[t] - begin[t];
    return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

void print_tries(const char* name, const std::vector<double>& tries, const char* after) {
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < tries.size(); ++i) std::printf("%s%.9g", i ? ", " : "", tries[i]);
    std::printf("]%s", after);
}

// ---------------------------------------------------------------- company

// Seconds that the cores we may run on were not idle, and how many they are; none where there is no /proc/stat. Time that other virtual
// machines took ("steal") was not idle either.
struct Cores {
    double busy = 0;
    int count = 0;
    explicit Cores(const char* path = "/proc/stat") {
#if defined(__linux__)
        cpu_set_t ours;
        if (sched_getaffinity(0, sizeof ours, &ours) != 0) return;
        std::FILE* file = std::fopen(path, "r");
        char line[512];
        while (file && std::fgets(line, sizeof line, file)) {
            // Not the first line, which sums up all cores and has no number.
            int core = -1;
            unsigned long long user, nice, system, idle, wait, irq, soft, steal = 0;
            if (std::strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9') continue;
            if (std::sscanf(line + 3, "%d %llu %llu %llu %llu %llu %llu %llu %llu", &core, &user, &nice, &system, &idle, &wait, &irq, &soft, &steal) < 8)
                continue;
            if (core >= CPU_SETSIZE || !CPU_ISSET(core, &ours)) continue;
            busy += double(user + nice + system + irq + soft + steal) / double(sysconf(_SC_CLK_TCK));
            ++count;
        }
        if (file) std::fclose(file);
#else
        (void)path;
#endif
    }
};

// Share of the cores' time that others had while we ran for `own` of `wall` seconds; below 0: not known, for what was counted is less
// than we took ourselves.
double others(const Cores& before, const Cores& after, double own, double wall) {
    const double all = after.count * wall, share = all > 0 ? (after.busy - before.busy - own) / all : -1;
    return share < -0.05 ? -1 : std::min(std::max(share, 0.0), 1.0);
}

double ran() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// ---------------------------------------------------------------- memory

volatile float sink;

struct Arrays {
    std::unique_ptr<float, decltype(&std::free)> a, b, c;
    std::size_t each;  // floats
};

float* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, bytes) != 0) {
        std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
        std::exit(3);
    }
    return static_cast<float*>(memory);
}

void copy(float* to, const float* from, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
}

void triad(float* __restrict to, const float* __restrict x, const float* __restrict y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = x[i] + 0.5f * y[i];
}

float read(const float* from, std::size_t n) {
    float sums[64] = {};
    for (std::size_t i = 0; i + 64 <= n; i += 64)
        for (int k = 0; k < 64; ++k) sums[k] += from[i + k];
    float total = 0;
    for (float part : sums) total += part;
    return total;
}

#if defined(__SSE2__)
// Stores past the caches: nothing is read in order to be overwritten.
void stream_triad(float* to, const float* x, const float* y, std::size_t n) {
    const __m128 half = _mm_set1_ps(0.5f);
    for (std::size_t i = 0; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k += 4)
            _mm_stream_ps(to + i + k, _mm_add_ps(_mm_loadu_ps(x + i + k), _mm_mul_ps(half, _mm_loadu_ps(y + i + k))));
    _mm_sfence();
}
#endif

void bandwidth(int threads, std::size_t cache) {
    // Far larger than the caches together, but bounded: a roof is not worth a machine out of memory.
    const std::size_t wanted = cache ? 4 * cache : std::size_t{256} << 20;
    const std::size_t bytes = std::min(std::max(wanted, std::size_t{64} << 20), std::size_t{512} << 20);
    const std::size_t share = bytes / sizeof(float) / threads / 1024 * 1024;
    std::vector<Arrays> own;
    for (int t = 0; t < threads; ++t)
        own.push_back({{allocate(share * 4), &std::free}, {allocate(share * 4), &std::free}, {allocate(share * 4), &std::free}, share});
    // Touched first by the thread that will use it, so that pages lie in its own node; this also pays for the page faults.
    together(threads, [&](int t) {
        for (std::size_t i = 0; i < share; ++i) own[t].a.get()[i] = own[t].b.get()[i] = own[t].c.get()[i] = 1.0f;
    });
    struct Pattern {
        const char* name;
        double arrays;
        std::function<void(int)> work;
    };
    std::vector<Pattern> patterns = {
        {"copy", 2, [&](int t) { copy(own[t].a.get(), own[t].b.get(), share); }},
        {"triad", 3, [&](int t) { triad(own[t].a.get(), own[t].b.get(), own[t].c.get(), share); }},
        {"read", 1, [&](int t) { sink = read(own[t].b.get(), share); }},
    };
#if defined(__SSE2__)
    patterns.push_back({"stream_triad", 3, [&](int t) { stream_triad(own[t].a.get(), own[t].b.get(), own[t].c.get(), share); }});
#endif
    std::printf("\"array_bytes\": %zu, \"bandwidth\": {", share * 4 * threads);
    for (std::size_t p = 0; p < patterns.size(); ++p) {
        std::vector<double> tries;
        const double until = now() + 0.15;
        while (tries.size() < 4 || (now() < until && tries.size() < 60)) {
            const double seconds = together(threads, patterns[p].work);
            tries.push_back(patterns[p].arrays * double(share) * 4 * threads / seconds);
        }
        print_tries(patterns[p].name, tries, p + 1 < patterns.size() ? ", " : "");
    }
    std::printf("}, ");
}

// ---------------------------------------------------------------- arithmetic

#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
constexpr int kChains = 12;  // independent accumulators: more than latency x pipes of known cores, and few enough for 16 registers

volatile double seed = 1.0;

// 2 x kChains x lanes x rounds operations. Start values are read at run time and the result is stored, so nothing can be left out.
template <typename T>
void multiply_add(long rounds) {
    typedef T Vector __attribute__((vector_size(kVector)));
    const T start = static_cast<T>(seed);
    Vector chains[kChains], factor = {}, term = {};
    factor += start * static_cast<T>(0.999);
    term += start * static_cast<T>(0.001);
    for (int k = 0; k < kChains; ++k) chains[k] = factor + static_cast<T>(k);
    for (long i = 0; i < rounds; ++i)
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 16
#endif
        for (int k = 0; k < kChains; ++k) chains[k] = chains[k] * factor + term;
    T total = 0;
    for (int k = 0; k < kChains; ++k)
        for (std::size_t lane = 0; lane < kVector / sizeof(T); ++lane) total += chains[k][lane];
    sink = static_cast<float>(total);
}

// Where others use the machine too, some thread is nearly always held up; so each thread's best rate is kept beside the common tries.
template <typename T>
void arithmetic(const char* name, int threads) {
    const double operations = 2.0 * kChains * (kVector / sizeof(T));
    long rounds = 1 << 16;
    while (together(threads, [&](int) { multiply_add<T>(rounds); }) < 0.002) rounds *= 2;
    std::vector<double> tries[2], best[2] = {std::vector<double>(threads), std::vector<double>(threads)}, seconds(threads);
    const double until = now() + 0.1;
    while (tries[0].size() < 4 || (now() < until && tries[0].size() < 60)) {
        // A loop that was optimised away does not take twice as long for twice the rounds; then the two rates disagree.
        for (int doubled = 0; doubled < 2; ++doubled) {
            const double work = operations * double(rounds << doubled);
            const double all = together(threads, [&](int) { multiply_add<T>(rounds << doubled); }, &seconds);
            tries[doubled].push_back(work * threads / all);
            for (int t = 0; t < threads; ++t) best[doubled][t] = std::max(best[doubled][t], work / seconds[t]);
        }
    }
    std::printf("\"%s\": {", name);
    print_tries("once", tries[0], ", ");
    print_tries("doubled", tries[1], ", ");
    print_tries("threads_once", best[0], ", ");
    print_tries("threads_doubled", best[1], "}, ");
}

// ---------------------------------------------------------------- an empty call

void nothing(const float*, float*, int) {}
void (*volatile call)(const float*, float*, int) = &nothing;

void launch() {
    std::vector<double> tries;
    for (int attempt = 0; attempt < 7; ++attempt) {
        const int calls = 200000;
        const double start = now();
        for (int i = 0; i < calls; ++i) call(nullptr, nullptr, i);
        tries.push_back((now() - start) / calls);
    }
    print_tries("call", tries, "");
}

}  // namespace

int main(int count, char** argument) {
    if (count != 3) {
        std::fprintf(stderr, "usage: roofs THREADS LAST_LEVEL_CACHE_BYTES\n");
        return 2;
    }
    const int threads = std::max(1, std::atoi(argument[1]));
    const Cores before;
    const double own = ran(), start = now();
    std::printf("{\"threads\": %d, ", threads);
    bandwidth(threads, std::strtoull(argument[2], nullptr, 10));
    arithmetic<float>("float32", threads);
    arithmetic<double>("float64", threads);
    launch();
    const Cores after;
    const double share = others(before, after, ran() - own, now() - start);
    std::printf(", \"others\": %s}\n", share < 0 ? "null" : std::to_string(share).c_str());
    return 0;
}
