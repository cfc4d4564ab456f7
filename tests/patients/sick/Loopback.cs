using System.Net;
using System.Net.Sockets;

namespace Patients;

static class Loopback
{
    // Two connected TCP sockets of this process.
    public static (Socket Near, Socket Far) Pair()
    {
        using Socket listener = Listen();
        var near = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        near.Connect(listener.LocalEndPoint!);
        return (near, listener.Accept());
    }

    public static Socket Listen()
    {
        var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        return listener;
    }
}
