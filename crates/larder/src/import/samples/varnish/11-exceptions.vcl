vcl 4.1;
backend default { .host = "10.0.0.5"; .port = "80"; }
acl purge { "192.168.55.0"/24; ! "192.168.55.7"; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purge) { return (synth(405, "Not allowed.")); }
        return (purge);
    }
    return (hash);
}
