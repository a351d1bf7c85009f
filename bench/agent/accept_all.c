/* The baseline: takes every packet of a queue and accepts it.
 *
 *     accept_all QUEUE [CLEAR SET]
 *
 * With CLEAR and SET (hexadecimal) the verdict carries (mark & ~CLEAR) | SET, for rulesets that
 * take an ACCEPT without such a mark for no answer at all. Prints "ready" when it is bound.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static uint32_t clear_bits, set_bits;

static int judge(struct nfq_q_handle *queue, struct nfgenmsg *message, struct nfq_data *packet,
                 void *context)
{
    (void)message, (void)context;
    uint32_t id = ntohl(nfq_get_msg_packet_hdr(packet)->packet_id);
    uint32_t mark = (nfq_get_nfmark(packet) & ~clear_bits) | set_bits;
    return nfq_set_verdict2(queue, id, NF_ACCEPT, mark, 0, NULL);
}

int main(int argc, char **argv)
{
    static char buffer[65536] __attribute__((aligned(8)));
    if (argc != 2 && argc != 4)
        return fprintf(stderr, "usage: accept_all QUEUE [CLEAR SET]\n"), 2;
    clear_bits = argc == 4 ? strtoul(argv[2], NULL, 16) : 0;
    set_bits = argc == 4 ? strtoul(argv[3], NULL, 16) : 0;
    struct nfq_handle *handle = nfq_open();
    struct nfq_q_handle *queue = handle ? nfq_create_queue(handle, atoi(argv[1]), judge, NULL) : NULL;
    if (!queue || nfq_set_mode(queue, NFQNL_COPY_PACKET, 4096) < 0)
        return perror("accept_all: no queue"), 3;
    nfnl_rcvbufsiz(nfq_nfnlh(handle), 1 << 21);
    puts("ready"), fflush(stdout);
    for (;;) {
        ssize_t size = recv(nfq_fd(handle), buffer, sizeof buffer, 0);
        if (size >= 0)
            nfq_handle_packet(handle, buffer, size);
        else if (errno != ENOBUFS && errno != EINTR)
            return perror("accept_all: recv"), 1;
    }
}
