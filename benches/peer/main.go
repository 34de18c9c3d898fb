// Command peer carries WorkloadDeployments to a hub and Instances back: an ordinary controller-runtime program, which the
// bench measures beside fedgate's gateway.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// shutdownTimeout bounds how long running reconciles may hold up the end.
const shutdownTimeout = 5 * time.Second

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	hub := flag.String("hub-kubeconfig", "", "kubeconfig `file` of the hub")
	projects := flag.String("project-directory", "", "`folder` with one kubeconfig per project, <name>.yaml")
	ready := flag.String("ready-address", "", "`address` that serves /readyz")
	flag.Parse()
	if *hub == "" || *projects == "" || *ready == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(ctrl.SetupSignalHandler(), *hub, *projects, *ready); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, hubFile, directory, readyAddress string) error {
	config, err := clientConfig(hubFile)
	if err != nil {
		return err
	}
	timeout := shutdownTimeout
	hub, err := ctrl.NewManager(config, manager.Options{
		Cache:                   cacheOptions(),
		Client:                  clientOptions(),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &timeout,
	})
	if err != nil {
		return fmt.Errorf("set up the hub: %w", err)
	}
	if err := startInformers(ctx, hub, metadataOf(namespaceKind), metadataOf(policyKind)); err != nil {
		return fmt.Errorf("watch the hub: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := addProject(ctx, hub, file); err != nil {
			return fmt.Errorf("set up the project of %s: %w", file, err)
		}
	}
	if err := addReadiness(hub, readyAddress); err != nil {
		return err
	}
	return hub.Start(ctx)
}

func addProject(ctx context.Context, hub manager.Manager, file string) error {
	config, err := clientConfig(file)
	if err != nil {
		return err
	}
	plane, err := cluster.New(config, func(options *cluster.Options) {
		options.Cache = cacheOptions()
		options.Client = clientOptions()
	})
	if err != nil {
		return err
	}
	if err := startInformers(ctx, plane, metadataOf(namespaceKind)); err != nil {
		return err
	}
	if err := hub.Add(plane); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	project, err := newProject(ctx, name, plane, hub)
	if err != nil {
		return err
	}
	if err := project.addDeployments(hub); err != nil {
		return err
	}
	return project.addInstances(hub)
}

// clientConfig reads a kubeconfig and turns the client's own rate limit off: servers have priority and fairness.
func clientConfig(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", file, err)
	}
	config.QPS = -1
	return config, nil
}

// cacheOptions drops managedFields, which nobody reads here, before objects are kept.
func cacheOptions() cache.Options {
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
}

// clientOptions lets reads of unstructured objects come from the cache too.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{Unstructured: true}}
}

// startInformers makes kinds that are read but wake nobody part of the first sync.
func startInformers(ctx context.Context, plane cluster.Cluster, objects ...client.Object) error {
	for _, object := range objects {
		if _, err := plane.GetCache().GetInformer(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// addReadiness serves /readyz; the manager starts the runnable that turns it to 200 once all caches are synced.
func addReadiness(mgr manager.Manager, address string) error {
	var ready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "caches are not synced", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: shutdownTimeout}
	if err := mgr.Add(&manager.Server{Name: "readiness", Server: server}); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		ready.Store(true)
		<-ctx.Done()
		return nil
	}))
}
