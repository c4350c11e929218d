// Package request says what a user asks for: the options of one GPU device as a
// container manager takes them, and which GPUs of a host, or which CDI devices,
// they select.
package request
