// Times Kafka's own assignors on the cell that stands on the standard input, and answers in lines; see assignors.py.
//
// In:  line 1 "topics partitions members seconds-per-measurement give-up-after-seconds"; then per member (one more than
//      "members": the joiner) the numbers of its topics, or "*" for all.
// Out: "prior" and the member of every partition in the fresh assignment of `uniform`, from which every event starts; then
//      "strategy event thread-cpu-ms runs moves largest-load" or "strategy event gave-up".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class AssignorBench {
    static int topics, partitions, members;
    static double seconds, patience;
    static boolean mixed;
    static final List<List<String>> subscriptions = new ArrayList<>();
    static final Map<String, Integer> topicNumbers = new HashMap<>();
    static final Map<Uuid, Integer> topicIds = new HashMap<>();
    static final ExecutorService worker = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    static String topic(int t) { return String.format("topic-%04d", t); }
    static String member(int m) { return String.format("consumer-%05d", m); }
    static Uuid id(int t) { return new Uuid(1, t + 1); }

    static List<Integer> present(String event) {
        List<Integer> found = new ArrayList<>();
        for (int m = 0; m <= members; m++) {
            boolean here = switch (event) {
                case "one joins" -> true;
                case "one leaves" -> m < members && m != members / 2;
                case "a tenth leaves" -> m < members && m % 10 != 3;
                default -> m < members;
            };
            if (here) found.add(m);
        }
        return found;
    }

    static Supplier<Object> sticky(List<Integer> present, int[] prior) {
        Node[] nodes = {new Node(0, "h", 9092)};
        List<PartitionInfo> infos = new ArrayList<>();
        for (int t = 0; t < topics; t++)
            for (int p = 0; p < partitions; p++) infos.add(new PartitionInfo(topic(t), p, nodes[0], nodes, nodes));
        Cluster cluster = new Cluster("c", List.of(nodes), infos, Set.of(), Set.of());
        Map<Integer, List<TopicPartition>> had = new HashMap<>();
        for (int i = 0; prior != null && i < prior.length; i++)
            had.computeIfAbsent(prior[i], k -> new ArrayList<>()).add(new TopicPartition(topic(i / partitions), i % partitions));
        Map<String, Subscription> group = new HashMap<>();
        for (int m : present) {
            List<TopicPartition> owned = had.getOrDefault(m, List.of());
            StickyAssignor before = new StickyAssignor();  // what a member had travels in its user data
            if (!owned.isEmpty()) before.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", 1, member(m), Optional.empty()));
            group.put(member(m), new Subscription(subscriptions.get(m), before.subscriptionUserData(Set.copyOf(subscriptions.get(m)))));
        }
        GroupSubscription asked = new GroupSubscription(group);
        return () -> {
            for (Subscription s : group.values()) if (s.userData() != null) s.userData().rewind();
            return new StickyAssignor().assign(cluster, asked);
        };
    }

    static Supplier<Object> uniform(List<Integer> present, int[] prior) {
        Map<Integer, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int m : present) owned.put(m, new HashMap<>());
        if (prior != null)
            for (int i = 0; i < prior.length; i++)
                if (owned.containsKey(prior[i])) {
                    Uuid t = id(i / partitions);
                    owned.get(prior[i]).computeIfAbsent(t, k -> new HashSet<>()).add(i % partitions);
                    owners.computeIfAbsent(t, k -> new HashMap<>()).put(i % partitions, member(prior[i]));
                }
        Map<String, MemberSubscriptionAndAssignmentImpl> group = new HashMap<>();
        for (int m : present) {
            Set<Uuid> wanted = new HashSet<>();
            for (String t : subscriptions.get(m)) wanted.add(id(topicNumbers.get(t)));
            group.put(member(m), new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), wanted,
                new org.apache.kafka.coordinator.group.modern.Assignment(owned.get(m))));
        }
        GroupSpec asked = new GroupSpecImpl(group, mixed ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS, owners);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid t) { return topicIds.containsKey(t) ? partitions : -1; }
            public Set<String> racksForPartition(Uuid t, int p) { return Set.of(); }
        };
        return () -> new UniformAssignor().assign(asked, describer);
    }

    static int[] owners(Object answer) {
        int[] found = new int[topics * partitions];
        Arrays.fill(found, -1);
        if (answer instanceof ConsumerPartitionAssignor.GroupAssignment client)
            client.groupAssignment().forEach((m, a) -> {
                for (TopicPartition tp : a.partitions()) found[topicNumbers.get(tp.topic()) * partitions + tp.partition()] = number(m);
            });
        else
            ((org.apache.kafka.coordinator.group.api.assignor.GroupAssignment) answer).members().forEach((m, a) ->
                a.partitions().forEach((t, ps) -> { for (int p : ps) found[topicIds.get(t) * partitions + p] = number(m); }));
        return found;
    }

    static int number(String member) { return Integer.parseInt(member.substring(9)); }

    // The median thread CPU time of the later half of as many runs as fit the time; the earlier half is for the compiler.
    static double[] time(Supplier<Object> run) {
        var threads = ManagementFactory.getThreadMXBean();
        List<Long> spent = new ArrayList<>();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        do {
            long begin = threads.getCurrentThreadCpuTime();
            run.get();
            spent.add(threads.getCurrentThreadCpuTime() - begin);
        } while (System.nanoTime() < end);
        List<Long> later = new ArrayList<>(spent.subList(spent.size() / 2, spent.size()));
        Collections.sort(later);
        return new double[] {later.get(later.size() / 2) / 1e6, spent.size()};
    }

    static void measure(String strategy, String event, int[] prior) throws Exception {
        List<Integer> present = present(event);
        int[] had = event.equals("fresh") ? null : prior;
        Supplier<Object> run = strategy.equals("sticky") ? sticky(present, had) : uniform(present, had);
        double[] taken;
        try {
            taken = worker.submit(() -> time(run)).get((long) ((seconds + patience) * 1000), TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            System.out.println(strategy + "," + event + ",gave-up");
            System.out.flush();
            System.exit(0);  // the computation cannot be interrupted; what would follow takes as long
            return;
        }
        int[] now = owners(run.get());
        int[] loads = new int[members + 1];
        int moves = 0;
        Set<Integer> here = new HashSet<>(present);
        for (int i = 0; i < now.length; i++) {
            loads[now[i]]++;
            if (had != null && here.contains(had[i]) && now[i] != had[i]) moves++;
        }
        System.out.printf(Locale.ROOT, "%s,%s,%.4f,%d,%d,%d%n", strategy, event, taken[0], (int) taken[1], moves, Arrays.stream(loads).max().getAsInt());
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Scanner head = new Scanner(in.readLine()).useLocale(Locale.ROOT);
        topics = head.nextInt(); partitions = head.nextInt(); members = head.nextInt();
        seconds = head.nextDouble(); patience = head.nextDouble();
        List<String> all = new ArrayList<>();
        for (int t = 0; t < topics; t++) { all.add(topic(t)); topicNumbers.put(topic(t), t); topicIds.put(id(t), t); }
        for (int m = 0; m <= members; m++) {
            String line = in.readLine();
            if (line.equals("*")) { subscriptions.add(all); continue; }
            mixed = true;
            List<String> wanted = new ArrayList<>();
            for (String t : line.split(" ")) wanted.add(topic(Integer.parseInt(t)));
            subscriptions.add(wanted);
        }
        int[] prior = owners(uniform(present("fresh"), null).get());
        StringBuilder line = new StringBuilder("prior");
        for (int m : prior) line.append(' ').append(m);
        System.out.println(line);
        for (String strategy : new String[] {"uniform", "sticky"})  // the slowest of all, which may have to be given up, last
            for (String event : new String[] {"a tenth leaves", "one leaves", "one joins", "fresh"}) measure(strategy, event, prior);
        System.exit(0);
    }
}
