package ctlsocket

var Sockets = sockets
