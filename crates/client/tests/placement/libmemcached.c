/* Says where libmemcached places keys.
 *
 * usage: libmemcached DISTRIBUTION HASH [DEAD...]
 *
 * DISTRIBUTION: modula, consistent, ketama, weighted, spy; or "value": the hash itself, no servers. Or "KETAMA",
 * "KETAMA_WEIGHTED": the behaviour of that name and nothing else, HASH not minded.
 * Standard input: a line "HOST PORT WEIGHT" for each server (port 0: a unix socket), an empty line, a key a line.
 * Standard output: for each key a line with the index of its server.
 * DEAD: indices of servers that nobody listens at: they are spoken to until libmemcached has ejected them.
 */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(memcached_return_t result, const char *what) {
  if (result != MEMCACHED_SUCCESS) {
    fprintf(stderr, "%s: %d\n", what, (int)result);
    exit(1);
  }
}

static void distribute(memcached_st *fleet, const char *name) {
  memcached_server_distribution_t distribution = MEMCACHED_DISTRIBUTION_MODULA;
  if (!strcmp(name, "consistent"))
    distribution = MEMCACHED_DISTRIBUTION_CONSISTENT;
  else if (!strcmp(name, "ketama"))
    distribution = MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA;
  else if (!strcmp(name, "spy"))
    distribution = MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY;
  else if (strcmp(name, "modula") && strcmp(name, "weighted"))
    exit(2);
  if (!strcmp(name, "weighted") || !strcmp(name, "spy"))
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1), "weighted");
  if (strcmp(name, "weighted"))
    must(memcached_behavior_set_distribution(fleet, distribution), "distribution");
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  char line[4096];
  memcached_hash_t hash = (memcached_hash_t)atoi(argv[2]);
  memcached_st *fleet = memcached_create(NULL);
  int values = !strcmp(argv[1], "value");
  if (!strcmp(argv[1], "KETAMA")) {
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_KETAMA, 1), "behaviour");
  } else if (!strcmp(argv[1], "KETAMA_WEIGHTED")) {
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1), "behaviour");
  } else if (!values) {
    distribute(fleet, argv[1]);
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_HASH, hash), "hash");
  }
  if (argc > 3) {
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_AUTO_EJECT_HOSTS, 1), "eject");
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_SERVER_FAILURE_LIMIT, 1), "limit");
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 600), "retry");
    must(memcached_behavior_set(fleet, MEMCACHED_BEHAVIOR_DEAD_TIMEOUT, 600), "dead");
  }
  while (fgets(line, sizeof line, stdin) && line[0] != '\n') {
    char host[1024];
    unsigned port, weight;
    if (sscanf(line, "%1023s %u %u", host, &port, &weight) != 3)
      return 2;
    must(port ? memcached_server_add_with_weight(fleet, host, (in_port_t)port, weight)
              : memcached_server_add_unix_socket_with_weight(fleet, host, weight),
         "server");
  }
  for (int at = 3; at < argc; at++) {
    /* Ejecting changes who has which key, so each is looked for anew. */
    unsigned dead = (unsigned)atoi(argv[at]), tries = 0;
    char key[32];
    do {
      if (++tries > 1000000)
        return 3;
      snprintf(key, sizeof key, "dead-%u", tries);
    } while (memcached_generate_hash(fleet, key, strlen(key)) != dead);
    /* The first request fails, the next finds that enough have failed. */
    for (tries = 0; memcached_generate_hash(fleet, key, strlen(key)) == dead; tries++) {
      memcached_return_t result;
      if (tries == 10)
        return 4;
      free(memcached_get(fleet, key, strlen(key), NULL, NULL, &result));
    }
  }
  while (fgets(line, sizeof line, stdin)) {
    size_t length = strcspn(line, "\n");
    if (values)
      printf("%u\n", memcached_generate_hash_value(line, length, hash));
    else
      printf("%u\n", memcached_generate_hash(fleet, line, length));
  }
  return 0;
}
