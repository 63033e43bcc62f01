// Delayed UCB1 on ten Bernoulli arms under a constant delay, a thread a replication: CUDA written for exactly this game, the
// limit that engine="cuda" is held against. It draws the numbers that belated draws, so that their regret must agree.
//
//   nvcc -O3 -std=c++17 -fmad=false -arch=native by_hand.cu -o by_hand       on a GPU
//   g++ -O2 -std=c++17 -ffp-contract=off -x c++ by_hand.cu -o by_hand        the same on a CPU, thread by thread: a check
//   ./by_hand REPLICATIONS ROUNDS [REPEATS]
//
// Prints one line of JSON: seconds of the fastest of the repeats, and the mean pseudo-regret of a replication (seed 0).

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#ifdef __CUDACC__
#define BOTH __host__ __device__ inline
#else
#define BOTH inline
#endif

constexpr int kArms = 10;
constexpr int kDelay = 100;
constexpr int kBlock = 128;
constexpr double kTie = 1e-9;

/// Ten rounds of Philox 4x32: the first two of its words.
struct Words {
    std::uint32_t first, second, third, fourth;
};

BOTH Words philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3, std::uint32_t k0,
                  std::uint32_t k1) {
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<std::uint32_t>(p1);
        c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<std::uint32_t>(p0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
}

BOTH double unit(std::uint32_t high, std::uint32_t low) {
    return static_cast<double>((static_cast<std::uint64_t>(high >> 5) << 26) + (low >> 6)) * 0x1.0p-53;
}

/// What a thread works on; in shared memory, where thread i has every kBlock-th number.
template <int Stride>
struct Memory {
    double mean[kArms * Stride], radius[kArms * Stride];
    std::int32_t total[kArms * Stride], seen[kArms * Stride], predicted[kArms * Stride];
    std::uint8_t pending[kDelay * Stride];  // the action, and above it the reward
};

/// One replication; widths[t] is sqrt(2 ln t), which is the same for all.
template <int Stride>
BOTH double play(Memory<Stride>& memory, int lane, std::uint32_t replication, int rounds, const double* widths,
                 const double* means, double best_mean) {
    const Words key = philox(replication, 0, 0, 0, 0, 0);
    for (int arm = 0; arm < kArms; ++arm) {
        const int at = arm * Stride + lane;
        memory.mean[at] = INFINITY;
        memory.radius[at] = 0.0;
        memory.total[at] = memory.seen[at] = memory.predicted[at] = 0;
    }
    int slot = 0;
    for (int t = 1; t <= rounds; ++t) {
        const double width = widths[t];
        double index[kArms], best = -INFINITY;
        for (int arm = 0; arm < kArms; ++arm) {
            index[arm] = memory.mean[arm * Stride + lane] + width * memory.radius[arm * Stride + lane];
            best = index[arm] > best ? index[arm] : best;
        }
        // Ties go to the arm predicted fewest times, outstanding predictions included, then to the lowest.
        int chosen = 0;
        std::int32_t fewest = std::numeric_limits<std::int32_t>::max();
        for (int arm = 0; arm < kArms; ++arm) {
            const std::int32_t count = memory.predicted[arm * Stride + lane];
            const bool take = index[arm] >= best - kTie && count < fewest;
            fewest = take ? count : fewest;
            chosen = take ? arm : chosen;
        }
        memory.predicted[chosen * Stride + lane] = fewest + 1;
        const Words words = philox(t, 0, 0, (1u << 28) ^ (chosen >> 1), key.first, key.second);
        const double u = chosen & 1 ? unit(words.third, words.fourth) : unit(words.first, words.second);
        const int pays = u < means[chosen];
        if (t > kDelay) {
            const int arrived = memory.pending[slot * Stride + lane];
            const int at = (arrived & 15) * Stride + lane;
            const double seen = ++memory.seen[at];
            memory.mean[at] = (memory.total[at] += arrived >> 4) / seen;
            memory.radius[at] = 1.0 / sqrt(seen);
        }
        memory.pending[slot * Stride + lane] = static_cast<std::uint8_t>(chosen | pays << 4);
        slot = slot + 1 == kDelay ? 0 : slot + 1;
    }
    double regret = 0.0;
    for (int arm = 0; arm < kArms; ++arm) regret += (best_mean - means[arm]) * memory.predicted[arm * Stride + lane];
    return regret;
}

#ifdef __CUDACC__
__global__ void play_all(int replications, int rounds, const double* widths, const double* means, double best, double* out) {
    extern __shared__ double room[];
    auto& memory = *reinterpret_cast<Memory<kBlock>*>(room);
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i < replications) out[i] = play(memory, threadIdx.x, i, rounds, widths, means, best);
}

void run(int replications, int rounds, const std::vector<double>& widths, const std::vector<double>& means, double best,
         std::vector<double>& regret) {
    static double *there = nullptr, *arms = nullptr, *out = nullptr;
    if (!there) {
        cudaMalloc(&there, widths.size() * sizeof(double));
        cudaMalloc(&arms, means.size() * sizeof(double));
        cudaMalloc(&out, replications * sizeof(double));
        cudaMemcpy(there, widths.data(), widths.size() * sizeof(double), cudaMemcpyHostToDevice);
        cudaMemcpy(arms, means.data(), means.size() * sizeof(double), cudaMemcpyHostToDevice);
        cudaFuncSetAttribute(play_all, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory<kBlock>));
    }
    play_all<<<(replications + kBlock - 1) / kBlock, kBlock, sizeof(Memory<kBlock>)>>>(replications, rounds, there, arms, best,
                                                                                   out);
    cudaMemcpy(regret.data(), out, replications * sizeof(double), cudaMemcpyDeviceToHost);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}
#else
void run(int replications, int rounds, const std::vector<double>& widths, const std::vector<double>& means, double best,
         std::vector<double>& regret) {
    Memory<1> memory;
    for (int i = 0; i < replications; ++i) regret[i] = play(memory, 0, i, rounds, widths.data(), means.data(), best);
}
#endif

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s REPLICATIONS ROUNDS [REPEATS]\n", argv[0]);
        return 2;
    }
    const int replications = std::atoi(argv[1]), rounds = std::atoi(argv[2]), repeats = argc > 3 ? std::atoi(argv[3]) : 1;
    std::vector<double> widths(rounds + 1), means(kArms), regret(replications);
    for (int t = 1; t <= rounds; ++t) widths[t] = std::sqrt(2.0 * std::log(static_cast<double>(t)));
    for (int arm = 0; arm < kArms; ++arm) means[arm] = 0.05 * (kArms - arm);
    double fastest = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const auto start = std::chrono::steady_clock::now();
        run(replications, rounds, widths, means, means[0], regret);
        fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    double sum = 0.0;
    for (const double each : regret) sum += each;
    std::printf("{\"decisions\": %lld, \"seconds\": %.9f, \"regret\": %.9f}\n",
                static_cast<long long>(replications) * rounds, fastest, sum / replications);
    return 0;
}
