package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	tokens "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// How often the garbage collector looks for new kinds.
	discoverEvery = 30 * time.Second
	workers       = 20
	// Lifetime of the certificates that the signer issues.
	validFor = 365 * 24 * time.Hour
)

// The controllers of kube-controller-manager that the planes of a sandbox need, without the manager: its other forty
// controllers take longer to compile than these to write down. The flags have the names that
// kube-controller-manager gives them.
type controllers struct {
	names, tokenKey, rootCA, signingCert, signingKey string

	client   *kubernetes.Clientset
	metadata metadata.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	shared   informers.SharedInformerFactory
	started  chan struct{}
	run      []func(context.Context)
}

func runControllers(args []string) error {
	var c controllers
	flags := flag.NewFlagSet("plane-controllers", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the plane")
	flags.StringVar(&c.names, "controllers", "", "names of controllers, with commas between them")
	flags.StringVar(&c.tokenKey, "service-account-private-key-file", "", "key that signs tokens of service accounts")
	flags.StringVar(&c.rootCA, "root-ca-file", "", "authority that tokens' Secrets name")
	flags.StringVar(&c.signingCert, "cluster-signing-cert-file", "", "certificate of the signer")
	flags.StringVar(&c.signingKey, "cluster-signing-key-file", "", "key of the signer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := configOf(*kubeconfig)
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	ctx, stop := untilEnded()
	defer stop()
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	c.shared = informers.NewSharedInformerFactory(c.client, 0)
	c.started = make(chan struct{})
	for _, name := range strings.Split(c.names, ",") {
		if err := c.add(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	go wait.Until(c.mapper.Reset, discoverEvery, ctx.Done())
	c.shared.Start(ctx.Done())
	close(c.started)
	for _, run := range c.run {
		go run(ctx)
	}
	<-ctx.Done()
	return nil
}

// A client's settings, without its limit of 5 requests a second: a suite that deletes many namespaces would wait for it.
func configOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 2000
	return config, nil
}

func untilEnded() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func (c *controllers) add(ctx context.Context, name string) error {
	switch name {
	case "namespace-controller":
		discover := c.client.Discovery().ServerPreferredNamespacedResources
		namespaces := namespace.NewNamespaceController(ctx, c.client, c.metadata, discover,
			c.shared.Core().V1().Namespaces(), 5*time.Minute, core.FinalizerKubernetes)
		c.run = append(c.run, func(ctx context.Context) { namespaces.Run(ctx, workers) })
	case "garbage-collector-controller":
		return c.addGarbageCollector(ctx)
	case "serviceaccount-token-controller":
		return c.addTokens(ctx)
	case "clusterrole-aggregation-controller":
		roles := clusterroleaggregation.NewClusterRoleAggregation(c.shared.Rbac().V1().ClusterRoles(), c.client.RbacV1())
		c.run = append(c.run, func(ctx context.Context) { roles.Run(ctx, workers) })
	case "certificatesigningrequest-signing-controller":
		requests := c.shared.Certificates().V1().CertificateSigningRequests()
		certificates, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, c.client, requests, c.signingCert, c.signingKey, validFor)
		if err != nil {
			return err
		}
		c.run = append(c.run, func(ctx context.Context) { certificates.Run(ctx, workers) })
	default:
		return fmt.Errorf("there is no controller of this name")
	}
	return nil
}

func (c *controllers) addGarbageCollector(ctx context.Context) error {
	factory := informerfactory.NewInformerFactory(c.shared, metadatainformer.NewSharedInformerFactory(c.metadata, 0))
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, c.metadata, c.mapper, garbagecollector.DefaultIgnoredResources(), factory, c.started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, c.client, c.metadata, c.mapper, graph)
	if err != nil {
		return err
	}
	c.run = append(c.run,
		func(ctx context.Context) { collector.Run(ctx, workers, discoverEvery) },
		func(ctx context.Context) { collector.Sync(ctx, c.client.Discovery(), discoverEvery) })
	return nil
}

func (c *controllers) addTokens(ctx context.Context) error {
	key, err := keyutil.PrivateKeyFromFile(c.tokenKey)
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(c.rootCA)
	if err != nil {
		return err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return err
	}
	accounts, secrets := c.shared.Core().V1().ServiceAccounts(), c.shared.Core().V1().Secrets()
	options := tokens.TokensControllerOptions{TokenGenerator: generator, RootCA: authority}
	controller, err := tokens.NewTokensController(klog.FromContext(ctx), accounts, secrets, c.client, options)
	if err != nil {
		return err
	}
	c.run = append(c.run, func(ctx context.Context) { controller.Run(ctx, workers) })
	return nil
}
