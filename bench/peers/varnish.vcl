vcl 4.1;

# The built-in rules alone: they cache what the origin lets them.
backend default {
    .host = "@origin_host@";
    .port = "@origin_port@";
}
