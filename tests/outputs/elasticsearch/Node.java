import static org.codelibs.opensearch.runner.OpenSearchRunner.newConfigs;

import org.codelibs.opensearch.runner.OpenSearchRunner;

/** An OpenSearch node of its own: DIRECTORY PORT. It runs until its standard input ends. */
public class Node {
    public static void main(String[] arguments) throws Exception {
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", arguments[1]);
            settings.put("transport.port", "0");
            settings.put("discovery.type", "single-node");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
            settings.put("node.processors", 2);
        }).build(newConfigs().basePath(arguments[0]).numOfNode(1).clusterName("dstream-tests").useLogger());
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
