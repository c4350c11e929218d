package driverfs

func (in *installer) data()    {}
func (in *installer) daemons() {}
func (in *installer) tegra()   {}
