/* The load: TCP connections as fast as they go, each closed as soon as it is open.
 *
 *     connect_load [-c CLIENTS] [-t SECONDS] [-p FIRST_PORT] [-n PORTS] [-a ADDRESSES]
 *                  [-s FIRST_SOURCE] [-S SOURCES] [-j PROCESSES] SERVER
 *
 * CLIENTS connections are under way at a time (64), shared out among PROCESSES; with -c 1 each is
 * a blocking connect(), which measures the latency of a first packet and nothing else. Destinations go round PORTS ports and
 * ADDRESSES consecutive addresses from SERVER on; sources likewise, if any is named. Closing sends
 * a reset (SO_LINGER 0), so that no port waits in TIME_WAIT.
 *
 * Prints one JSON object: connections opened, failed, still waiting at the end, seconds, connections
 * per second, and percentiles of the time from connect() to connected in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_CLIENTS 4096
#define MOST_PROCESSES 16
#define MOST_SAMPLES (1 << 21) /* of each process */
#define PATIENCE 5000000000LL /* nanoseconds until a connection counts as failed */

static int clients = 64, first_port = 8080, ports = 1, addresses = 1, sources = 1,
           processes = 1;
static uint32_t server, first_source;
static double seconds = 2;
static long started;
static struct tally {
    long opened, failed;
    int waiting;
    uint32_t samples[MOST_SAMPLES]; /* nanoseconds */
} *mine; /* in memory that all processes share */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

/* A socket on its way to the next destination in turn; blocking or not, as flags say. */
static int begin(int flags)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    static const int on = 1;
    long turn = started++;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(first_port + turn % ports),
                             .sin_addr.s_addr = htonl(server + turn / ports % addresses)};
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    if (fd < 0)
        give_up("connect_load: socket");
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (first_source) {
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(first_source + turn % sources)};
        setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&from, sizeof from))
            give_up("connect_load: bind");
    }
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static void sample(int64_t nanoseconds)
{
    if (mine->opened < MOST_SAMPLES)
        mine->samples[mine->opened] = nanoseconds > UINT32_MAX ? UINT32_MAX : nanoseconds;
    mine->opened++;
}

static void one_at_a_time(int64_t until)
{
    for (int64_t at = now(); at < until; at = now()) {
        int fd = begin(0);
        if (fd < 0) {
            mine->failed++;
            continue;
        }
        sample(now() - at);
        close(fd);
    }
}

static struct {
    int fd;
    int64_t since;
} slots[MOST_CLIENTS];

static void fill(int all, int slot)
{
    slots[slot].since = now();
    slots[slot].fd = begin(SOCK_NONBLOCK);
    if (slots[slot].fd < 0) {
        mine->failed++;
        return;
    }
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.u32 = slot};
    epoll_ctl(all, EPOLL_CTL_ADD, slots[slot].fd, &event);
    mine->waiting++;
}

static void empty(int slot)
{
    close(slots[slot].fd);
    slots[slot].fd = -1;
    mine->waiting--;
}

static void in_parallel(int64_t until)
{
    int all = epoll_create1(0);
    int64_t swept = now(), at;
    for (int slot = 0; slot < clients; slot++)
        fill(all, slot);
    while ((at = now()) < until) {
        struct epoll_event events[256];
        int count = epoll_wait(all, events, 256, 100);
        for (int n = 0; n < count; n++) {
            int slot = events[n].data.u32;
            if (events[n].events & (EPOLLERR | EPOLLHUP))
                mine->failed++;
            else
                sample(now() - slots[slot].since);
            empty(slot);
            fill(all, slot);
        }
        if (at - swept < 100000000)
            continue;
        swept = at;
        for (int slot = 0; slot < clients; slot++) {
            if (slots[slot].fd >= 0 && at - slots[slot].since > PATIENCE) {
                mine->failed++;
                empty(slot);
            }
            if (slots[slot].fd < 0)
                fill(all, slot);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "c:t:p:n:a:s:S:j:")) != -1)
        switch (option) {
        case 'c': clients = atoi(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'p': first_port = atoi(optarg); break;
        case 'n': ports = atoi(optarg); break;
        case 'a': addresses = atoi(optarg); break;
        case 's': first_source = ntohl(inet_addr(optarg)); break;
        case 'S': sources = atoi(optarg); break;
        case 'j': processes = atoi(optarg); break;
        default: return 2;
        }
    if (optind + 1 != argc || processes < 1 || processes > MOST_PROCESSES ||
        clients < processes || clients > MOST_CLIENTS)
        return fprintf(stderr, "usage: connect_load [options] SERVER\n"), 2;
    server = ntohl(inet_addr(argv[optind]));
    struct tally *all = mmap(NULL, processes * sizeof *all, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        give_up("connect_load: mmap");

    int64_t begun = now(), until = begun + (int64_t)(seconds * 1e9);
    int one = clients == 1;
    clients /= processes;
    for (int n = 0; n < processes; n++)
        if (fork() == 0) {
            mine = all + n;
            started = n; /* so that they are not all at the same destination */
            one ? one_at_a_time(until) : in_parallel(until);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    double took = (now() - begun) / 1e9;

    long opened = 0, failed = 0, waiting = 0, kept = 0;
    for (int n = 0; n < processes; n++) {
        long count = all[n].opened < MOST_SAMPLES ? all[n].opened : MOST_SAMPLES;
        opened += all[n].opened, failed += all[n].failed, waiting += all[n].waiting, kept += count;
    }
    uint32_t *samples = malloc((kept + 1) * sizeof *samples), *at = samples;
    if (!samples)
        give_up("connect_load: malloc");
    for (int n = 0; n < processes; n++) {
        long count = all[n].opened < MOST_SAMPLES ? all[n].opened : MOST_SAMPLES;
        at = mempcpy(at, all[n].samples, count * sizeof *samples);
    }
    *at = 0;
    qsort(samples, kept, sizeof *samples, by_size);
#define PERCENTILE(share) (samples[(long)((share) * (kept ? kept - 1 : 0))] / 1e3)
    printf("{\"connections\": %ld, \"failed\": %ld, \"waiting\": %ld, \"seconds\": %.3f, "
           "\"per_second\": %.1f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f}\n",
           opened, failed, waiting, took, opened / took, PERCENTILE(.5), PERCENTILE(.9),
           PERCENTILE(.99));
    return 0;
}
