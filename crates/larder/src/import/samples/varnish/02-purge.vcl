# varnishd -a :6081 -T localhost:6082 -f /etc/varnish/default.vcl -S /etc/varnish/secret -s malloc,1G
vcl 4.1;
import std;
backend default { .host = "10.0.0.5"; .port = "80"; .connect_timeout = 2s; .first_byte_timeout = 60s; .between_bytes_timeout = 10s; .max_connections = 100; }
acl purge { "localhost"; "192.168.55.0"/24; "10.0.0.1"; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purge) { return (synth(405, "Not allowed.")); }
        return (purge);
    }
    if (req.method != "GET" && req.method != "HEAD") { return (pass); }
}
