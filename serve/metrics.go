package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are the Prometheus metrics of a service.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	recommended prometheus.Counter
	shed        prometheus.Counter
	limited     prometheus.Counter
	panics      prometheus.Counter
	events      *prometheus.CounterVec
	share       prometheus.Gauge
	alarm       prometheus.Gauge
	alarms      prometheus.Counter
	seq         prometheus.Gauge
	vectorsLost prometheus.Gauge

	disconnected prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "unseen_requests_total",
			Help: "Requests by operation and status."}, []string{"operation", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "unseen_request_seconds",
			Help: "Time to respond.", Buckets: []float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1, 5}},
			[]string{"operation"}),
		recommended: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_recommended_items_total",
			Help: "Items in all lists."}),
		shed: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_shed_total",
			Help: "Requests rejected because too many were in progress."}),
		limited: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_rate_limited_total",
			Help: "Requests rejected by the rate limit of a token."}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_panics_total",
			Help: "Requests that panicked."}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "unseen_events_total",
			Help: "Events accepted, by kind."}, []string{"kind"}),
		share: prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen_same_field_share",
			Help: "Share of the last shown items in the source's own field."}),
		alarm: prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen_drift_alarm",
			Help: "1 while the same-field share is outside its expected range."}),
		alarms: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_drift_alarms_total",
			Help: "Drift alarms."}),
		seq: prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen_log_read_seq",
			Help: "Last event of the log that was counted."}),
		vectorsLost: prometheus.NewGauge(prometheus.GaugeOpts{Name: "unseen_vectors_lost",
			Help: "1 while vectors cannot be read: their file is gone or was changed."}),
		disconnected: prometheus.NewCounter(prometheus.CounterOpts{Name: "unseen_disconnected_total",
			Help: "Connections closed because there were too many."}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.recommended, m.shed, m.limited, m.panics, m.events, m.share,
		m.alarm, m.alarms, m.seq, m.vectorsLost, m.disconnected,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}
