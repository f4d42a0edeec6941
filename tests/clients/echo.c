/* Echoes the body of a request behind some of its parameters, by FastCGI's own library. */
#include <fcgi_stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    long count = 0;
    while (FCGI_Accept() >= 0) {
        char *length = getenv("CONTENT_LENGTH");
        long left = length ? atol(length) : 0;
        fprintf(stderr, "echo %s\n", getenv("REQUEST_URI"));
        printf("Content-Type: text/plain\r\nCache-Control: %s\r\n\r\n", left ? "no-store" : "max-age=600");
        printf("%s %s pid=%d count=%ld\n", getenv("REQUEST_METHOD"), getenv("REQUEST_URI"), (int)getpid(), ++count);
        for (; left > 0; left--) {
            int byte = getchar();
            if (byte < 0)
                break;
            putchar(byte);
        }
    }
    return 0;
}
