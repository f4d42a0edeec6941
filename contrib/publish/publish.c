/* Publishes a page by libmemcached: publish HOST PORT KEY SECONDS BODY [HEAD]
 * KEY is page:HOST/PATH. HEAD: lines such as "Status: 404 Not Found"; without it, the type is that
 * of the key's extension. Needs `[publish] prefix = "page:"`.
 * Build: cc -o publish publish.c -lmemcached */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The object begins with a head. */
#define WITH_HEAD (1u << 16)

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "publish HOST PORT KEY SECONDS BODY [HEAD]\n");
        return 2;
    }
    const char *head = argc > 6 ? argv[6] : NULL;
    size_t length = strlen(argv[5]) + (head ? strlen(head) + 4 : 0);
    char *value = malloc(length + 1);
    if (value == NULL) return 1;
    if (head) sprintf(value, "%s\r\n\r\n%s", head, argv[5]);
    else strcpy(value, argv[5]);
    memcached_st *client = memcached_create(NULL);
    memcached_server_add(client, argv[1], (in_port_t)atoi(argv[2]));
    memcached_return_t result = memcached_set(client, argv[3], strlen(argv[3]), value, length,
                                              atol(argv[4]), head ? WITH_HEAD : 0);
    puts(result == MEMCACHED_SUCCESS ? "published" : memcached_strerror(client, result));
    memcached_free(client);
    free(value);
    return result != MEMCACHED_SUCCESS;
}
