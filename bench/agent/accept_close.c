/* The server: accepts every connection and closes it.
 *
 *     accept_close FIRST_PORT [PORTS]
 *
 * Listens on that many ports of every address, prints "ready" when it does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_on(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096)) {
        perror("accept_close: listen");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3)
        return fprintf(stderr, "usage: accept_close FIRST_PORT [PORTS]\n"), 2;
    int first = atoi(argv[1]), ports = argc > 2 ? atoi(argv[2]) : 1, all = epoll_create1(0);
    for (int n = 0; n < ports; n++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = listen_on(first + n)};
        epoll_ctl(all, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    puts("ready"), fflush(stdout);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(all, events, 64, -1);
        for (int n = 0; n < count; n++) {
            int fd;
            while ((fd = accept4(events[n].data.fd, NULL, NULL, 0)) >= 0)
                close(fd);
        }
    }
}
