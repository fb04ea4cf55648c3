// Command pause is the first process of a process namespace: it waits, and reaps what has lost its parent.
//
// `pause` alone holds the sandbox of a pod. `pause machine` starts a copy of itself in new namespaces and prints its
// process id: the first process of a node, whose end is the end of all that runs there.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "machine" {
		startMachine()
		return
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}

func startMachine() {
	first := exec.Command("/proc/self/exe")
	first.Args = []string{"pause"}
	first.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
	}
	if err := first.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pause machine:", err)
		os.Exit(1)
	}
	fmt.Println(first.Process.Pid)
}
