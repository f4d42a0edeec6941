/* The workload of examples/compare.rs with libmemcached: compare WORKLOAD COUNT HOST:PORT...
 * Prints microseconds of CPU time of this process for each operation, and the 99th percentile of the time of each call. */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double cpu_us(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#define KEYS 1000

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *workload = argv[1];
    int count = atoi(argv[2]);
    memcached_st *m = memcached_create(NULL);
    for (int i = 3; i < argc; i++) {
        memcached_server_st *list = memcached_servers_parse(argv[i]);
        memcached_server_push(m, list);
        memcached_server_list_free(list);
    }
    memcached_behavior_set(m, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    static char names[KEYS][32];
    static const char *keys[KEYS];
    static size_t lengths[KEYS];
    char value[100];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < KEYS; i++) {
        lengths[i] = (size_t)sprintf(names[i], "bench-key-%d", i);
        keys[i] = names[i];
        if (memcached_set(m, names[i], lengths[i], value, sizeof value, 0, 0) != MEMCACHED_SUCCESS) return 1;
    }
    int buffered = !strcmp(workload, "set_buffered");
    if (buffered) {
        memcached_behavior_set(m, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1);
        memcached_behavior_set(m, MEMCACHED_BEHAVIOR_NOREPLY, 1);
    }
    double *times = malloc(sizeof(double) * (size_t)count);
    double cpu = cpu_us();
    long operations = 0;
    for (int n = 0; n < count; n++) {
        double begin = now_us();
        const char *key = keys[n % KEYS];
        size_t length = lengths[n % KEYS];
        if (!strcmp(workload, "get")) {
            size_t got;
            uint32_t flags;
            memcached_return_t rc;
            char *found = memcached_get(m, key, length, &got, &flags, &rc);
            if (!found || got != sizeof value) return 1;
            free(found);
            operations++;
        } else if (!strcmp(workload, "multi")) {
            int from = n * 100 % KEYS, found = 0;
            if (memcached_mget(m, keys + from, lengths + from, 100) != MEMCACHED_SUCCESS) return 1;
            memcached_return_t rc;
            memcached_result_st result, *item;
            memcached_result_create(m, &result);
            while ((item = memcached_fetch_result(m, &result, &rc)) != NULL) found++;
            memcached_result_free(&result);
            if (found != 100) return 1;
            operations += 100;
        } else {
            memcached_return_t rc = memcached_set(m, key, length, value, sizeof value, 0, 0);
            if (rc != MEMCACHED_SUCCESS && rc != MEMCACHED_BUFFERED) return 1;
            operations++;
        }
        times[n] = now_us() - begin;
    }
    if (buffered) memcached_flush_buffers(m);
    cpu = cpu_us() - cpu;
    qsort(times, (size_t)count, sizeof(double), ascending);
    printf("libmemcached %s %.2f %.0f\n", workload, cpu / (double)operations, times[count * 99 / 100]);
    memcached_free(m);
    return 0;
}
