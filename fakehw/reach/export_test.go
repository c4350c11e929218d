package reach

var Sockets = sockets
