// The fat tree of bench_engine.py on ns-3, for comparison: nix-vector routing, no P4, no tracing.
//
//     fat_tree K PEERS SHARE PAYLOAD WARM_US US      prints {"hops": .., "cpu_s": .., ...}
//
// Each host sends UDP at a constant rate to PEERS others at the distances that bench_engine.py uses. A
// hop is a packet through one switch. Hops are counted by the sinks (a path's length is known from its
// ends), so that nothing is traced while it runs; what happens in the first WARM_US (ARP, routes) is not counted. Links are point-to-point devices whose queues hold 1000
// packets, without queue disciplines above them: that is the fastest set-up that ns-3 has for this.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static double CpuSeconds()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& t) { return t.tv_sec + t.tv_usec / 1e6; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int main(int argc, char** argv)
{
    if (argc != 7) {
        std::cerr << "usage: fat_tree K PEERS SHARE PAYLOAD WARM_US US\n";
        return 2;
    }
    const uint32_t k = std::atoi(argv[1]), peers = std::atoi(argv[2]), payload = std::atoi(argv[4]);
    const double share = std::atof(argv[3]), rate = 400e9;
    const Time warm = MicroSeconds(std::atoi(argv[5])), span = MicroSeconds(std::atoi(argv[6]));
    const uint32_t half = k / 2, hosts = k * half * half, leaves = k * half;

    NodeContainer host, leaf, spine, core;
    host.Create(hosts);
    leaf.Create(leaves);
    spine.Create(leaves);
    core.Create(half * half);

    Ipv4NixVectorHelper nix;
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(nix);
    for (const auto& nodes : {host, leaf, spine, core})
        stack.Install(nodes);

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(rate))));
    link.SetDeviceAttribute("Mtu", UintegerValue(4200));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(500)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
    Ipv4AddressHelper address("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> where(hosts);
    auto join = [&](Ptr<Node> a, Ptr<Node> b) {
        NetDeviceContainer ends = link.Install(a, b);
        Ipv4InterfaceContainer found = address.Assign(ends);
        TrafficControlHelper().Uninstall(ends); // Assign has put a queue discipline there
        address.NewNetwork();
        return found.GetAddress(0);
    };
    for (uint32_t h = 0; h < hosts; h++)
        where[h] = join(host.Get(h), leaf.Get(h / half));
    for (uint32_t pod = 0; pod < k; pod++)
        for (uint32_t i = 0; i < half; i++) {
            for (uint32_t j = 0; j < half; j++)
                join(leaf.Get(pod * half + i), spine.Get(pod * half + j));
            for (uint32_t j = 0; j < half; j++)
                join(spine.Get(pod * half + i), core.Get(i * half + j));
        }

    const uint16_t port = 4791;
    std::vector<std::pair<Ptr<PacketSink>, uint32_t>> sinks; // and switches on the way
    for (uint32_t h = 0; h < hosts; h++)
        for (uint32_t peer = 0; peer < peers; peer++) {
            uint32_t to = (h + hosts / 4 + peer * (hosts / 2) / peers + 1) % hosts;
            InetSocketAddress target(where[to], uint16_t(port + peer * hosts + h));
            PacketSinkHelper taker("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), target.GetPort()));
            auto sink = DynamicCast<PacketSink>(taker.Install(host.Get(to)).Get(0));
            uint32_t switches = h / half == to / half ? 1 : h / (half * half) == to / (half * half) ? 3 : 5;
            sinks.emplace_back(sink, switches);
            OnOffHelper source("ns3::UdpSocketFactory", target);
            // Goodput such that frames take `share` of the link, as they do in bench_engine.py.
            double goodput = rate * share * payload / (payload + 82);
            source.SetConstantRate(DataRate(uint64_t(goodput)), payload);
            ApplicationContainer app = source.Install(host.Get(h));
            uint32_t number = h * peers + peer;
            app.Start(NanoSeconds(number * 7919 % 1000));
        }

    auto count = [&](uint64_t& hops) {
        uint64_t received = 0;
        hops = 0;
        for (const auto& [sink, switches] : sinks) {
            uint64_t packets = sink->GetTotalRx() / payload;
            received += packets;
            hops += packets * switches;
        }
        return received;
    };
    Simulator::Stop(warm);
    Simulator::Run();
    uint64_t hops_before, hops;
    const uint64_t received_before = count(hops_before);
    const double before = CpuSeconds();
    Simulator::Stop(span);
    Simulator::Run();
    const double cpu = CpuSeconds() - before;
    const uint64_t received = count(hops) - received_before;
    hops -= hops_before;
    double offered = hosts * peers * rate * share / 8 / (payload + 82) * span.GetSeconds();
    std::cout << "{\"hosts\": " << hosts << ", \"packets\": " << received << ", \"offered\": " << uint64_t(offered)
              << ", \"hops\": " << hops << ", \"cpu_s\": " << cpu << "}\n";
    Simulator::Destroy();
    return 0;
}
