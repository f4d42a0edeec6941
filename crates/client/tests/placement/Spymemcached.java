import java.io.*;
import java.lang.reflect.Proxy;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import net.spy.memcached.*;

/**
 * Says where spymemcached places keys.
 *
 * <p>Argument: SPYMEMCACHED or LIBMEMCACHED, how it names points. Standard input: a line "HOST PORT WEIGHT" for each
 * server, an empty line, a key a line. Standard output: for each key a line with the index of its server.
 */
public final class Spymemcached {
    public static void main(String[] arguments) throws IOException {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var nodes = new ArrayList<MemcachedNode>();
        var indices = new HashMap<SocketAddress, Integer>();
        var weights = new HashMap<InetSocketAddress, Integer>();
        boolean weighted = false;
        for (String line; !(line = input.readLine()).isEmpty(); ) {
            var words = line.split(" ");
            var address = new InetSocketAddress(words[0], Integer.parseInt(words[1]));
            indices.put(address, nodes.size());
            weights.put(address, Integer.parseInt(words[2]));
            weighted |= !words[2].equals("1");
            nodes.add(node(address));
        }
        var format = KetamaNodeKeyFormatter.Format.valueOf(arguments[0]);
        var some = weighted ? weights : new HashMap<InetSocketAddress, Integer>();
        var locator = new KetamaNodeLocator(nodes, DefaultHashAlgorithm.KETAMA_HASH, format, some);
        var output = new PrintStream(new BufferedOutputStream(System.out), false);
        for (String key; (key = input.readLine()) != null; ) {
            output.println(indices.get(locator.getPrimary(key).getSocketAddress()));
        }
        output.flush();
    }

    /** A node of which only the address is asked. */
    private static MemcachedNode node(InetSocketAddress address) {
        Class<?>[] faces = {MemcachedNode.class};
        return (MemcachedNode) Proxy.newProxyInstance(Spymemcached.class.getClassLoader(), faces, (self, method, given) ->
            switch (method.getName()) {
                case "getSocketAddress" -> address;
                case "hashCode" -> System.identityHashCode(self);
                case "equals" -> self == given[0];
                case "toString" -> address.toString();
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }
}
